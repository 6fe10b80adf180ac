// SPDX-License-Identifier: BSD-3-Clause
// Surroundings of this process: environment variables, threads that may call MPI, machine,
// processors.
#include "environment.hpp"

#include <mpi.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <tuple>

#include "checked_call.hpp"
#include "geometry/digest.hpp"
#include "geometry/instruction_set.hpp"
#include "geometry/make_error.hpp"
#include "memory/environment_number.hpp"

#ifdef __linux__
#include <sched.h>
#endif

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

Error wrong(const char* name, const std::string& what_is_right) {
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
    if (is_set(geometry::simd_variable)) {
        std::string names, separator;
        for (const std::string_view usable : geometry::usable_instruction_sets()) {
            if (std::getenv(geometry::simd_variable) == usable) return std::nullopt;
            names.append(separator).append(usable);
            separator = " or ";
        }
        return wrong(geometry::simd_variable, names + " on this processor");
    }
    return std::nullopt;
}

namespace {

int level() {
    // The level is settled when MPI is initialised, which it is here.
    static const int provided = [] {
        int value = MPI_THREAD_SINGLE;
        check(MPI_Query_thread(&value), "MPI_Query_thread");
        return value;
    }();
    return provided;
}

}  // namespace

bool any_thread_may_call() {
    return level() == MPI_THREAD_MULTIPLE;
}

bool may_call() {
    if (level() >= MPI_THREAD_SERIALIZED) return true;
    thread_local const bool is_main = [] {
        int main = 0;
        check(MPI_Is_thread_main(&main), "MPI_Is_thread_main");
        return main != 0;
    }();
    return is_main;
}

bool may_call_unasked() {
    return level() != MPI_THREAD_SERIALIZED && may_call();
}

void check_thread() {
    if (!may_call())
        throw Error(ErrorCode::invalid_state,
                    "MPI was initialised for calls from its main thread only; another thread needs "
                    "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
}

namespace {

std::string first_line(const char* path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    return line;
}

constexpr int word_bits = 64;

void add(ProcessorSet& processors, int number) {
    processors[static_cast<std::size_t>(number / word_bits)] |= std::uint64_t{1}
                                                                << number % word_bits;
}

}  // namespace

std::string library_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) length = 0;
    return {text, static_cast<std::size_t>(length)};
}

std::int64_t machine_number() {
    char host[256] = {}, processes[64] = {};
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) < 0) processes[0] = '\0';
    return geometry::text_digest(
        concat(first_line("/proc/sys/kernel/random/boot_id"), ' ', host, ' ', processes));
}

ProcessorSet usable_processors() {
    ProcessorSet usable{};
    constexpr int most = word_bits * static_cast<int>(std::tuple_size_v<ProcessorSet>);
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int n = 0; n < most && n < CPU_SETSIZE; ++n)
            if (CPU_ISSET(n, &allowed)) add(usable, n);
        return usable;
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (int n = 0; n < most && n < online; ++n) add(usable, n);
    return usable;
}

std::int64_t count(const ProcessorSet& processors) {
    std::int64_t found = 0;
    for (const std::uint64_t word : processors) found += std::popcount(word);
    return found;
}

}  // namespace datamover::mpi
