// SPDX-License-Identifier: Apache-2.0
// complex numbers are reduced by rankmesh::sum and rankmesh::mean only
#include <complex>
#include "refused.hpp"
void refused(Communicator& on, std::complex<float>& x) { on.reduce(x, prod, 1); }
