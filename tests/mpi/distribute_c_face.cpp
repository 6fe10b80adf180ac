// SPDX-License-Identifier: BSD-3-Clause
// datamover_alltoall_specific: does what the paper's operation promises.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "datamover/datamover.h"
#include "datamover/distribute.h"
#include "mpi_test.hpp"

namespace {

struct Element {
    int source;
    int position;
    int target;
    bool operator==(const Element&) const = default;
};

int rank() {
    return mpi_test::world_rank();
}

int nprocs() {
    return mpi_test::world_size();
}

/// What process `r` gives; every process can tell.
std::vector<Element> given_by(int r) {
    std::mt19937 random(static_cast<unsigned>(r));
    std::vector<Element> elements(static_cast<std::size_t>(random() % 500));
    int position = 0;
    for (Element& e : elements)
        e = {r, position++, static_cast<int>(random() % static_cast<unsigned>(nprocs() + 1)) - 1};
    return elements;
}

std::vector<Element> expected() {
    std::vector<Element> arriving;
    for (int r = 0; r < nprocs(); ++r)
        for (const Element& e : given_by(r))
            if (e.target == rank()) arriving.push_back(e);
    return arriving;
}

MPI_Datatype element_type() {
    static const MPI_Datatype type = [] {
        MPI_Datatype made = MPI_DATATYPE_NULL;
        MPI_Type_contiguous(3, MPI_INT, &made);
        MPI_Type_commit(&made);
        return made;
    }();
    return type;
}

constexpr int target_offset = static_cast<int>(offsetof(Element, target));

int target_of(const void* element, void* calls) {
    ++*static_cast<int*>(calls);
    return static_cast<const Element*>(element)->target;
}

TEST(AlltoallSpecific, DeliversInStableOrderAndKeepsTheInput) {
    auto mine = given_by(rank());
    const auto right = expected();
    std::vector<Element> result(right.size() + 3, Element{-7, -7, -7});
    int received = -1;
    ASSERT_EQ(MPI_SUCCESS, datamover_alltoall_specific(
                               mine.data(), static_cast<int>(mine.size()), element_type(),
                               result.data(), static_cast<int>(result.size()), element_type(),
                               target_offset, &received, MPI_COMM_WORLD))
        << datamover_error_message();
    ASSERT_EQ(static_cast<int>(right.size()), received);
    EXPECT_TRUE(std::equal(right.begin(), right.end(), result.begin()));
    EXPECT_EQ((Element{-7, -7, -7}), result[right.size()]);
    EXPECT_EQ(given_by(rank()), mine);
}

TEST(AlltoallSpecific, AsksAFunctionOncePerElement) {
    auto mine = given_by(rank());
    const auto right = expected();
    std::vector<Element> result(right.size() + 1);
    int64_t received = -1;
    int calls = 0;
    ASSERT_EQ(MPI_SUCCESS, datamover_alltoall_specific_function(
                               mine.data(), static_cast<int64_t>(mine.size()), element_type(),
                               result.data(), static_cast<int64_t>(result.size()), element_type(),
                               target_of, &calls, &received, MPI_COMM_WORLD));
    result.resize(static_cast<std::size_t>(received));
    EXPECT_EQ(right, result);
    EXPECT_EQ(static_cast<int>(mine.size()), calls);
}

TEST(AlltoallSpecific, TooLittleRoomMovesNothingAndTellsHowMuchIsNeeded) {
    auto mine = given_by(rank());
    const auto right = expected();
    const bool short_here = rank() == nprocs() - 1;
    const std::size_t room = short_here && !right.empty() ? right.size() - 1 : right.size();
    int short_anywhere = room < right.size() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &short_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    std::vector<Element> result(room + 1, Element{-7, -7, -7});
    int received = -1;
    const int code = datamover_alltoall_specific(
        mine.data(), static_cast<int>(mine.size()), element_type(), result.data(),
        static_cast<int>(room), element_type(), target_offset, &received, MPI_COMM_WORLD);
    EXPECT_EQ(static_cast<int>(right.size()), received);
    EXPECT_EQ(given_by(rank()), mine);
    if (!short_anywhere) return;
    EXPECT_EQ(DATAMOVER_MISMATCH, code);
    EXPECT_EQ((Element{-7, -7, -7}), result[0]);
}

TEST(AlltoallSpecific, WorksInPlace) {
    const auto mine = given_by(rank());
    auto right = expected();
    std::vector<Element> buffer = mine;
    buffer.resize(std::max(mine.size(), right.size()) + 1);
    int received = -1;
    ASSERT_EQ(MPI_SUCCESS, datamover_alltoall_specific(
                               MPI_IN_PLACE, static_cast<int>(mine.size()), element_type(),
                               buffer.data(), static_cast<int>(buffer.size()), element_type(),
                               target_offset, &received, MPI_COMM_WORLD));
    ASSERT_EQ(static_cast<int>(right.size()), received);
    buffer.resize(right.size());
    const auto by_origin = [](const Element& a, const Element& b) {
        return std::pair(a.source, a.position) < std::pair(b.source, b.position);
    };
    std::sort(buffer.begin(), buffer.end(), by_origin);
    EXPECT_EQ(right, buffer);
}

/// An int at either end of 32 bytes; the extent reaches beyond the last.
MPI_Datatype type_with_holes() {
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, 20};
    const MPI_Datatype types[] = {MPI_INT, MPI_INT};
    MPI_Datatype loose = MPI_DATATYPE_NULL, made = MPI_DATATYPE_NULL;
    MPI_Type_create_struct(2, lengths, places, types, &loose);
    MPI_Type_create_resized(loose, 0, 32, &made);
    MPI_Type_commit(&made);
    MPI_Type_free(&loose);
    return made;
}

TEST(AlltoallSpecific, MovesDatatypesWithHoles) {
    struct Wide {
        int value, hole[4], target, more[2];
    };
    static_assert(sizeof(Wide) == 32);
    MPI_Datatype type = type_with_holes();
    std::vector<Wide> mine(100, Wide{});
    for (int i = 0; i < 100; ++i)
        mine[static_cast<std::size_t>(i)] = {rank() * 100 + i, {}, i % nprocs(), {}};
    std::vector<Wide> result(100 * static_cast<std::size_t>(nprocs()));
    int64_t received = -1;
    ASSERT_EQ(MPI_SUCCESS, datamover_alltoall_specific_c(mine.data(), 100, type, result.data(),
                                                         static_cast<int64_t>(result.size()), type,
                                                         20, &received, MPI_COMM_WORLD))
        << datamover_error_message();
    std::size_t k = 0;
    for (int r = 0; r < nprocs(); ++r)
        for (int i = rank(); i < 100; i += nprocs(), ++k) {
            EXPECT_EQ(r * 100 + i, result[k].value);
            EXPECT_EQ(rank(), result[k].target);
        }
    EXPECT_EQ(static_cast<int64_t>(k), received);
    MPI_Type_free(&type);
}

TEST(AlltoallSpecific, KeepsTheOrderOfThoseThatStayInPlace) {
    std::vector<Element> buffer;
    for (int i = 0; i < 50; ++i)
        buffer.push_back({rank(), i, i % 3 == 0 ? (rank() + 1) % nprocs() : rank()});
    int64_t received = -1;
    ASSERT_EQ(MPI_SUCCESS, datamover_alltoall_specific_c(MPI_IN_PLACE, 50, MPI_DATATYPE_NULL,
                                                         buffer.data(), 50, element_type(),
                                                         target_offset, &received, MPI_COMM_WORLD));
    EXPECT_EQ(50, received);
    int last = -1;
    for (const Element& e : buffer) {
        EXPECT_EQ(rank(), e.target);
        if (e.source != rank()) continue;
        EXPECT_LT(last, e.position);
        last = e.position;
    }
}

TEST(AlltoallSpecific, SomeInPlaceAndOthersNotIsAnErrorEverywhere) {
    if (nprocs() == 1) return;
    std::vector<Element> one(1, Element{rank(), 0, rank()}), other = one;
    int received = -1;
    void* from = rank() == 0 ? MPI_IN_PLACE : static_cast<void*>(one.data());
    EXPECT_EQ(DATAMOVER_MISMATCH,
              datamover_alltoall_specific(from, 1, element_type(), other.data(), 1, element_type(),
                                          target_offset, &received, MPI_COMM_WORLD));
}

TEST(AlltoallSpecific, NothingFromAnybodyIsNothing) {
    int received = -1;
    EXPECT_EQ(MPI_SUCCESS,
              datamover_alltoall_specific(nullptr, 0, element_type(), nullptr, 0, element_type(),
                                          target_offset, &received, MPI_COMM_WORLD));
    EXPECT_EQ(0, received);
}

TEST(AlltoallSpecific, WrongTargetsAndTypesAreErrorsEverywhere) {
    auto mine = given_by(rank());
    mine.push_back({rank(), 0, rank() == 0 ? nprocs() : 0});
    std::vector<Element> result(1000 * static_cast<std::size_t>(nprocs()));
    int received = -1;
    const auto run = [&](MPI_Datatype type, int offset) {
        return datamover_alltoall_specific(mine.data(), static_cast<int>(mine.size()), type,
                                           result.data(), static_cast<int>(result.size()),
                                           element_type(), offset, &received, MPI_COMM_WORLD);
    };
    EXPECT_EQ(DATAMOVER_OUT_OF_RANGE, run(element_type(), target_offset));
    EXPECT_NE(nullptr, std::strstr(datamover_error_message(), "process 0"));
    EXPECT_EQ(DATAMOVER_WRONG_TYPE, run(rank() == 0 ? MPI_DOUBLE : element_type(), target_offset));
    EXPECT_EQ(DATAMOVER_OUT_OF_RANGE, run(element_type(), rank() == 0 ? 9 : target_offset));
}

/// One process gives an argument that cannot be; all get the code, and the next call is right.
TEST(AlltoallSpecific, WhatCannotBeOnOneProcessIsAnErrorEverywhere) {
    std::vector<Element> mine(3, Element{rank(), 0, rank()}), result(3);
    const bool guilty = rank() == nprocs() - 1;
    int received = -1;
    const auto call = [&](void* from, int count, MPI_Datatype type, void* to, MPI_Datatype to_type,
                          int offset, int* arrived) {
        return guilty ? datamover_alltoall_specific(from, count, type, to, 3, to_type, offset,
                                                    arrived, MPI_COMM_WORLD)
                      : datamover_alltoall_specific(mine.data(), 3, element_type(), result.data(),
                                                    3, element_type(), target_offset, &received,
                                                    MPI_COMM_WORLD);
    };
    const MPI_Datatype good = element_type(), none = MPI_DATATYPE_NULL;
    const auto at = [](std::vector<Element>& elements) { return elements.data(); };
    const int wrong = DATAMOVER_INVALID_ARGUMENT;
    EXPECT_EQ(wrong, call(nullptr, 3, good, at(result), good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, good, nullptr, good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, none, at(result), good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, good, at(result), none, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), -3, good, at(result), good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, good, MPI_IN_PLACE, good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, good, at(result), good, target_offset, nullptr));
    EXPECT_EQ(wrong, call(at(mine), 3, good, at(mine), good, target_offset, &received));
    EXPECT_EQ(wrong, call(at(mine), 3, good, at(mine) + 2, good, target_offset, &received));
    EXPECT_EQ(DATAMOVER_OUT_OF_RANGE,
              call(at(mine), 3, good, at(result), good, 2147483647, &received));
    EXPECT_EQ(MPI_SUCCESS, call(at(mine), 3, good, at(result), good, target_offset, &received));
    EXPECT_EQ(mine, result);
}

TEST(AlltoallSpecific, CountsWhoseSizeOverflowsAreAnErrorEverywhere) {
    Element one{rank(), 0, rank()}, other = one;
    int64_t received = -1;
    const int64_t huge = rank() == 0 ? INT64_MAX / 2 : 1;
    EXPECT_EQ(DATAMOVER_OUT_OF_RANGE,
              datamover_alltoall_specific_c(&one, huge, element_type(), &other, 1, element_type(),
                                            target_offset, &received, MPI_COMM_WORLD));
    EXPECT_EQ(DATAMOVER_OUT_OF_RANGE,
              datamover_alltoall_specific_c(&one, 1, element_type(), &other, huge, element_type(),
                                            target_offset, &received, MPI_COMM_WORLD));
}

TEST(AlltoallSpecific, AnExceptionOfTheTargetFunctionIsAnErrorEverywhere) {
    Element one{rank(), 0, rank()}, other = one;
    int64_t received = -1;
    const datamover_target_function thrower = [](const void* element, void*) -> int {
        if (static_cast<const Element*>(element)->source == nprocs() - 1)
            throw std::runtime_error("mine");
        return rank();
    };
    EXPECT_NE(MPI_SUCCESS, datamover_alltoall_specific_function(&one, 1, element_type(), &other, 1,
                                                                element_type(), thrower, nullptr,
                                                                &received, MPI_COMM_WORLD));
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
