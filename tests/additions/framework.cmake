# Writes the first C++ block of a document that begins with the name of rows to a file:
#     cmake -DDOCUMENT=<the document> -DOUT=<the file> -P framework.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${DOCUMENT} text)
string(FIND "${text}" "```cpp\n// src/frameworks/" begin)
if(begin EQUAL -1)
    message(FATAL_ERROR "${DOCUMENT} has no rows of a framework")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} text)
file(WRITE ${OUT} "${text}")
