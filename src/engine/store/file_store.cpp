// SPDX-License-Identifier: Apache-2.0
#include "engine/store/stores.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include <rankmesh/core/error.hpp>

#include "engine/system.hpp"

namespace rankmesh::detail {
namespace {

/// More bytes than the entry of a world of a million ranks has.
constexpr auto longest_entry = off_t{1} << 29;

[[noreturn]] void throw_failure(const std::string& what, const std::string& path) {
    throw EngineFailure(cat("the store: ", what, " '", path, "': ", std::strerror(errno)));
}

/// The name with every character that is special in a path replaced by its code in three digits, so that
/// different names have different files.
std::string file_name(const std::string& name) {
    auto safe = std::string{};
    for (auto c : name) {
        const auto plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           c == '-' || c == '_' || (c == '.' && !safe.empty());
        if (plain)
            safe += c;
        else
            append(safe, cat("%", std::to_string(1000 + static_cast<unsigned char>(c)).substr(1)));
    }
    return safe;
}

/// The folder without slashes and dots at its end, through which a link would be followed.
std::string without_trailing_slashes(std::string folder) {
    while (folder.size() > 1 && (folder.ends_with('/') || folder.ends_with("/."))) folder.pop_back();
    return folder;
}

/// Opens a folder that must be this user's alone, making it if it is missing.
int open_folder(int parent, const std::string& name, const std::string& path) {
    if (mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) throw_failure("cannot make", path);
    const auto folder = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status {};
    if (folder < 0 && (errno == ELOOP || errno == ENOTDIR))
        throw UsageError(
            cat("the store '", path, "' is no folder; name one that this user owns, or a new one"));
    if (folder < 0 || fstat(folder, &status) != 0) throw_failure("cannot open", path);
    if (status.st_uid != geteuid()) {
        close(folder);
        throw UsageError(cat("the store '", path, "' belongs to user ", status.st_uid,
                             ", but this process runs as ", geteuid(),
                             "; what another user writes there is not believed, name a folder of your own"));
    }
    if ((status.st_mode & 022) != 0) {
        close(folder);
        char mode[8] = {};
        std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777);
        throw UsageError(cat("the store '", path, "' can be written by others (mode ", mode,
                             "); chmod 700 it, or name a folder that does not exist yet"));
    }
    return folder;
}

class FileStore final : public Store {
public:
    FileStore(const std::string& folder, const std::string& job)
        : folder_(without_trailing_slashes(folder)), job_(job) {
        const auto parent = open_folder(AT_FDCWD, folder_, folder_);
        try {
            directory_ = open_folder(parent, file_name(job), path_of({}));
        } catch (...) {
            close(parent);
            throw;
        }
        close(parent);
    }
    ~FileStore() override { close(directory_); }
    FileStore& operator=(FileStore&&) = delete;

    bool set(const std::string& name, const std::string& text, Instant) override {
        const auto whole = file_name(name);
        const auto part = cat(".", whole, ".", getpid(), ".", temporary_++);
        errno = write_new_file(directory_, part, text, 0600);
        if (errno != 0) throw_failure("cannot write", path_of(part));
        // A hard link appears atomically and never replaces an existing file.
        const auto linked = linkat(directory_, part.c_str(), directory_, whole.c_str(), 0) == 0;
        const auto error = errno;
        unlinkat(directory_, part.c_str(), 0);
        errno = error;
        if (!linked && errno != EEXIST) throw_failure("cannot write", path_of(whole));
        return linked;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names, Instant) override {
        auto entries = std::vector<std::optional<std::string>>{};
        for (const auto& name : names) entries.push_back(read_entry(name));
        return entries;
    }
    void remove(const std::vector<std::string>& names, Instant) noexcept override {
        for (const auto& name : names) unlinkat(directory_, file_name(name).c_str(), 0);
    }
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(4); }
    std::string text() const override { return cat("the store '", folder_, "'"); }
    const std::string& job() const override { return job_; }

private:
    std::optional<std::string> read_entry(const std::string& name) const {
        const auto whole = file_name(name);
        // A pipe that nobody writes to must not be waited for.
        const auto file = openat(directory_, whole.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0 && errno == ENOENT) return std::nullopt;
        struct stat status {};
        const auto foreign = file < 0 ? errno == ELOOP || errno == ENXIO
                                      : fstat(file, &status) == 0 && !S_ISREG(status.st_mode);
        const auto wrong = foreign ? std::string(" is no file")
                           : file >= 0 && status.st_size > longest_entry
                               ? cat(" has ", status.st_size, " bytes")
                               : std::string{};
        if (!wrong.empty()) {
            if (file >= 0) close(file);
            throw EngineFailure(cat("the store: the entry '", path_of(whole), "'", wrong,
                                    ", which no rank has written; give the job a folder of its own"));
        }
        if (file < 0) throw_failure("cannot read", path_of(whole));
        auto text = std::string{};
        char buffer[4096];
        for (;;) {
            const auto count = read(file, buffer, sizeof buffer);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) break;
            text.append(buffer, static_cast<std::size_t>(count));
        }
        close(file);
        return text;
    }
    /// The path of an entry's file, or of the job's folder.
    std::string path_of(const std::string& file) const {
        return cat(folder_, "/", file_name(job_), file.empty() ? "" : "/", file);
    }

    const std::string folder_;
    const std::string job_;
    int directory_ = -1;
    unsigned temporary_ = 0;
};

}  // namespace

std::unique_ptr<Store> file_store(const std::string& folder, const std::string& job) {
    return std::make_unique<FileStore>(folder, job);
}

}  // namespace rankmesh::detail
