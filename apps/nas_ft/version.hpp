// SPDX-License-Identifier: BSD-3-Clause
// Versions of NAS FT, and the interface that each of them implements.
#pragma once

#include <memory>

#include "report.hpp"
#include "spectrum.hpp"

namespace ft {

/// Memory for one process's share, and the transforms in three dimensions, with the transposes that
/// they need. Made on all processes together.
class Version {
public:
    virtual ~Version() = default;
    virtual const Share& share() const = 0;
    virtual Complex* space() = 0;
    virtual Complex* spectrum() = 0;
    /// From space to spectrum; space is overwritten. Collective.
    virtual void forward(Transforms& transforms, apps::Times& times) = 0;
    /// And back; the spectrum is overwritten.
    virtual void inverse(Transforms& transforms, apps::Times& times) = 0;
};

std::unique_ptr<Version> with_datamover(const Problem& problem);
/// In slabs: one is transformed while another travels.
std::unique_ptr<Version> overlapped(const Problem& problem);
/// With one section left out of a plan: its verification has to fail.
std::unique_ptr<Version> incomplete(const Problem& problem);
std::unique_ptr<Version> by_hand(const Problem& problem);

}  // namespace ft
