// SPDX-License-Identifier: BSD-3-Clause
// Updates: every operation on every pair of types gives the result of a plain loop over the
// elements.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "datamover/error.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

constexpr ScalarType types[] = {ScalarType::int8,    ScalarType::int16,     ScalarType::int32,
                                ScalarType::int64,   ScalarType::uint8,     ScalarType::uint16,
                                ScalarType::uint32,  ScalarType::uint64,    ScalarType::float32,
                                ScalarType::float64, ScalarType::complex64, ScalarType::complex128,
                                ScalarType::boolean};
constexpr Op ops[] = {Op::replace, Op::add, Op::multiply, Op::minimum, Op::maximum};

bool is_complex(ScalarType t) {
    return t == ScalarType::complex64 || t == ScalarType::complex128;
}

/// Small whole numbers are exact in every type, so that one oracle in complex<double> serves all.
using Value = std::complex<double>;

template <class T>
Value read_as(const char* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return Value(static_cast<double>(v), 0);
}
template <class T>
void write_as(char* p, Value value) {
    const T v = static_cast<T>(value.real());
    std::memcpy(p, &v, sizeof v);
}

Value read(ScalarType t, const char* p) {
    std::complex<float> c;
    Value z;
    switch (t) {
        case ScalarType::int8:
            return read_as<std::int8_t>(p);
        case ScalarType::int16:
            return read_as<std::int16_t>(p);
        case ScalarType::int32:
            return read_as<std::int32_t>(p);
        case ScalarType::int64:
            return read_as<std::int64_t>(p);
        case ScalarType::uint16:
            return read_as<std::uint16_t>(p);
        case ScalarType::uint32:
            return read_as<std::uint32_t>(p);
        case ScalarType::uint64:
            return read_as<std::uint64_t>(p);
        case ScalarType::float32:
            return read_as<float>(p);
        case ScalarType::float64:
            return read_as<double>(p);
        case ScalarType::complex64:
            std::memcpy(&c, p, 8);
            return Value(c.real(), c.imag());
        case ScalarType::complex128:
            std::memcpy(&z, p, 16);
            return z;
        default:
            return read_as<std::uint8_t>(p);
    }
}

void write(ScalarType t, char* p, Value v) {
    const std::complex<float> c(static_cast<float>(v.real()), static_cast<float>(v.imag()));
    switch (t) {
        case ScalarType::int8:
            return write_as<std::int8_t>(p, v);
        case ScalarType::int16:
            return write_as<std::int16_t>(p, v);
        case ScalarType::int32:
            return write_as<std::int32_t>(p, v);
        case ScalarType::int64:
            return write_as<std::int64_t>(p, v);
        case ScalarType::uint16:
            return write_as<std::uint16_t>(p, v);
        case ScalarType::uint32:
            return write_as<std::uint32_t>(p, v);
        case ScalarType::uint64:
            return write_as<std::uint64_t>(p, v);
        case ScalarType::float32:
            return write_as<float>(p, v);
        case ScalarType::float64:
            return write_as<double>(p, v);
        case ScalarType::complex64:
            std::memcpy(p, &c, 8);
            return;
        case ScalarType::complex128:
            std::memcpy(p, &v, 16);
            return;
        case ScalarType::boolean:
            return write_as<std::uint8_t>(p, v != Value() ? 1.0 : 0.0);
        default:
            return write_as<std::uint8_t>(p, v);
    }
}

bool less(Value a, Value b) {
    return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
}

Value combined(const ElementUpdate& u, Value in_place, Value arriving) {
    if (u.destination_type == ScalarType::boolean) arriving = arriving != Value() ? 1.0 : 0.0;
    if (!is_complex(u.destination_type)) arriving = arriving.real();
    if (u.conjugate) arriving = std::conj(arriving);
    arriving = u.alpha * arriving;
    switch (u.op) {
        case Op::add:
            return u.beta * in_place + arriving;
        case Op::multiply:
            return in_place * arriving;
        case Op::minimum:
            return less(arriving, in_place) ? arriving : in_place;
        case Op::maximum:
            return less(in_place, arriving) ? arriving : in_place;
        default:
            return arriving;
    }
}

void fill(ScalarType t, std::vector<char>& bytes, Engine& random) {
    const std::int64_t elem = scalar_bytes(t);
    for (std::int64_t at = 0; at + elem <= static_cast<std::int64_t>(bytes.size()); at += elem) {
        const auto re = static_cast<double>(between(random, 0, 5));
        const auto im = is_complex(t) ? static_cast<double>(between(random, 0, 3)) : 0.0;
        write(t, bytes.data() + at,
              t == ScalarType::boolean ? Value(re > 2 ? 1 : 0) : Value(re, im));
    }
}

void expect_update(const ElementUpdate& u, Engine& random, bool product) {
    const std::int64_t from = scalar_bytes(u.source_type);
    const std::int64_t to = scalar_bytes(u.destination_type);
    const Case c =
        product ? random_product(random, from, to, 3, 800) : random_pairs(random, from, to, 100);
    std::vector<char> source(static_cast<std::size_t>(c.source_bytes));
    std::vector<char> expected(static_cast<std::size_t>(c.destination_bytes));
    fill(u.source_type, source, random);
    fill(u.destination_type, expected, random);
    const std::vector<char> before = expected;
    for (std::size_t i = 0; i < c.source.size(); ++i) {
        char* d = expected.data() + c.destination[i];
        write(u.destination_type, d,
              combined(u, read(u.destination_type, d),
                       read(u.source_type, source.data() + c.source[i])));
    }
    std::vector<char> actual = before;
    c.relation.copy(source.data(), actual.data(), u);
    EXPECT_EQ(actual, expected) << c.relation.kernel(u).describe();
    std::vector<char> message(c.source.size() * static_cast<std::size_t>(from));
    c.relation.gather(source.data(), message.data());
    actual = before;
    c.relation.scatter(message.data(), actual.data(), u);
    EXPECT_EQ(actual, expected) << "through a message, " << c.relation.kernel(u).describe();
}

ErrorCode code_of(const ElementUpdate& u, std::int64_t from, std::int64_t to) {
    const Addresses zero{0};
    try {
        AddressRelation::from_pairs(zero, zero, from, to).kernel(u);
    } catch (const Error& e) {
        return e.code();
    }
    return ErrorCode::io;
}

}  // namespace

TEST(RelationUpdates, EveryOperationAndPairOfTypes) {
    Engine random(11);
    for (ScalarType from : types)
        for (ScalarType to : types)
            for (Op op : ops) {
                ElementUpdate u;
                u.op = op;
                u.source_type = from;
                u.destination_type = to;
                expect_update(u, random, true);
                expect_update(u, random, false);
                if (HasFailure())
                    FAIL() << op_name(op) << " " << scalar_name(from) << " " << scalar_name(to);
            }
}

TEST(RelationUpdates, FactorsAndConjugation) {
    Engine random(12);
    for (ScalarType from : types)
        for (ScalarType to : types) {
            if (to == ScalarType::boolean) continue;
            ElementUpdate u;
            u.op = Op::add;
            u.source_type = from;
            u.destination_type = to;
            u.conjugate = between(random, 0, 1) == 1;
            u.alpha = is_complex(to) ? Value(2, 1) : Value(3, 0);
            u.beta = is_complex(to) ? Value(1, 2) : Value(2, 0);
            expect_update(u, random, true);
            expect_update(u, random, false);
            if (HasFailure()) FAIL() << scalar_name(from) << " " << scalar_name(to);
        }
}

TEST(RelationUpdates, NotANumberWinsMinimumAndMaximum) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double source[] = {nan, 1.0, 2.0, nan};
    const Addresses at{0, 1, 2, 3};
    for (Op op : {Op::minimum, Op::maximum}) {
        double destination[] = {5.0, nan, 1.0, nan};
        ElementUpdate u;
        u.op = op;
        u.source_type = u.destination_type = ScalarType::float64;
        AddressRelation::from_pairs(at, at, 8, 8).copy(source, destination, u);
        EXPECT_TRUE(std::isnan(destination[0]));
        EXPECT_TRUE(std::isnan(destination[1]));
        EXPECT_EQ(destination[2], op == Op::minimum ? 1.0 : 2.0);
        EXPECT_TRUE(std::isnan(destination[3]));
    }
}

TEST(RelationUpdates, RepeatedDestinationsAreAllAdded) {
    const std::vector<double> source(1000, 1.5);
    Addresses from(1000);
    std::iota(from.begin(), from.end(), std::int64_t{0});
    const Addresses to(1000, 0);
    double sum = 1.0;
    ElementUpdate u;
    u.op = Op::add;
    u.source_type = u.destination_type = ScalarType::float64;
    AddressRelation::from_pairs(from, to, 8, 8).copy(source.data(), &sum, u);
    EXPECT_EQ(sum, 1501.0);
}

TEST(RelationUpdates, WhatHasNoMeaningIsRefused) {
    ElementUpdate u;
    u.op = Op::add;
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::unsupported);
    u.source_type = ScalarType::float64;
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::wrong_type);
    u.destination_type = ScalarType::float64;
    EXPECT_EQ(code_of(u, 4, 8), ErrorCode::wrong_type);
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::io);
    u.alpha = {0.5, 1.0};
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::unsupported);
    u.alpha = {0.5, 0.0};
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::io);
    u.destination_type = ScalarType::int64;
    EXPECT_EQ(code_of(u, 8, 8), ErrorCode::unsupported);
    EXPECT_THROW(op_from_name("max of"), Error);
    EXPECT_EQ(op_from_name("min"), Op::minimum);
}
