// SPDX-License-Identifier: BSD-3-Clause
// Environment variables, read and checked.
#include "environment.hpp"

#include <cmath>
#include <cstdlib>

#include "geometry/make_error.hpp"
#include "memory/environment_number.hpp"

namespace datamover::mpi {
namespace {

constexpr const char* node_size = "DATAMOVER_NODE_SIZE";
constexpr const char* peer_reads = "DATAMOVER_PEER_READS";
constexpr const char* shared_bytes = "DATAMOVER_SHARED_BYTES";
constexpr const char* timeout_variable = "DATAMOVER_TIMEOUT";

bool is_set(const char* name) {
    const char* text = std::getenv(name);
    return text && *text;
}

Error wrong(const char* name, const char* what_is_right) {
    return make_error(ErrorCode::invalid_argument, name, " is \"", std::getenv(name),
                      "\"; it must be ", what_is_right);
}

}  // namespace

std::int64_t pretend_node_size() {
    return memory::environment_number(node_size).value_or(0);
}

bool may_read_peers() {
    return memory::environment_number(peer_reads).value_or(1) != 0;
}

std::optional<double> environment_timeout() {
    if (!is_set(timeout_variable)) return std::nullopt;
    char* end = nullptr;
    const double seconds = std::strtod(std::getenv(timeout_variable), &end);
    if (*end != '\0' || !(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
    return seconds;
}

std::optional<Error> environment_error() {
    if (is_set(node_size) && !memory::environment_number(node_size))
        return wrong(node_size, "a number of processes, 0 for the real nodes");
    if (is_set(peer_reads) && memory::environment_number(peer_reads).value_or(2) > 1)
        return wrong(peer_reads, "0 or 1");
    if (is_set(shared_bytes) && !memory::environment_number(shared_bytes))
        return wrong(shared_bytes, "a number of bytes, without a unit");
    if (is_set(timeout_variable) && !environment_timeout())
        return wrong(timeout_variable, "a number of seconds above 0");
    return std::nullopt;
}

}  // namespace datamover::mpi
