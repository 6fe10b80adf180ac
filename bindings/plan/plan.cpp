// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of MotionPlan and of the functions that build plans.
#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "module.hpp"
#include "plan/compile.hpp"
#include "plan/section_cursor.hpp"

namespace datamover::bindings {

namespace {

/// The sections of a plan one by one. Keeps its own copy of the plan, so that the plan may be
/// edited meanwhile.
class SectionIterator {
public:
    SectionIterator(MotionPlan plan, std::int64_t source_rank, std::int64_t destination_rank)
        : plan_(std::move(plan)), cursor_(plan_, source_rank, destination_rank) {}
    SectionIterator(const SectionIterator&) = delete;
    SectionIterator& operator=(const SectionIterator&) = delete;

    SectionCopy next() {
        SectionCopy section;
        if (!cursor_.next(section)) throw nb::stop_iteration();
        return section;
    }

private:
    MotionPlan plan_;
    plan::SectionCursor cursor_;
};

std::int64_t rank_or_any(std::optional<std::int64_t> rank) {
    if (rank && *rank < 0)
        throw make_error(ErrorCode::out_of_range, "rank ", *rank, " is negative");
    return rank.value_or(plan::any_rank);
}

/// Elements by peer, of what a rank sends or receives. `nodes`: the number of each rank's node.
template <auto parts>
nb::typed<nb::dict, std::int64_t, std::int64_t> sizes_by_peer(const MotionPlan& plan,
                                                              std::int64_t rank,
                                                              Given<ArrayLike> nodes) {
    std::vector<std::int64_t> numbers;
    if (!nodes.is_none()) numbers = Integers(nodes, "nodes").to_vector();
    nb::dict sizes;
    for (const PeerPart& peer : (plan.*parts)(rank, numbers))
        sizes[nb::int_(peer.rank)] = peer.part.size();
    return sizes;
}

std::int64_t counted(const MotionPlan& plan, std::int64_t i) {
    if (i < -plan.size() || i >= plan.size())
        throw make_error(ErrorCode::out_of_range, "term ", i, " of a plan with ", plan.size(),
                         " terms");
    return i < 0 ? i + plan.size() : i;
}

AddressRelation relation_of(const MotionPlan& plan, std::int64_t source_rank,
                            std::int64_t destination_rank, std::int64_t elem_bytes,
                            const std::string& order, const MemoryLayout* source_memory,
                            const MemoryLayout* destination_memory) {
    const ElementOrder elements = element_order(order);
    const MemoryLayout from = source_memory
                                  ? *source_memory
                                  : dense_memory(plan.source(), source_rank, elem_bytes, elements);
    const MemoryLayout to = destination_memory ? *destination_memory
                                               : dense_memory(plan.destination(), destination_rank,
                                                              elem_bytes, elements);
    return plan::compile(plan.part(source_rank, destination_rank),
                         {&plan.source(), &from, elem_bytes, source_rank},
                         {&plan.destination(), &to, elem_bytes, destination_rank});
}

/// The sections for which `keep` gives what Python takes for true, as truths of NumPy are. Of a
/// copy of the plan, which `keep` or another thread may edit meanwhile.
MotionPlan filtered(MotionPlan plan, const std::function<nb::object(const SectionCopy&)>& keep) {
    return plan.filter([&](const SectionCopy& section) {
        const int truth = PyObject_IsTrue(keep(section).ptr());
        if (truth < 0) nb::raise_python_error();
        return truth == 1;
    });
}

/** Python MotionPlan.filter
The plan of those sections for which keep(section) is true.

If all sections of a term are kept, the term is unchanged. Otherwise its kept sections become terms
of their own, which takes time proportional to the number of sections. Raises Unsupported for index
lists.

Examples
--------
>>> import datamover as dm
>>> blocks = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 8)), (2, 2), nprocs=4)
>>> to_others = dm.halo(blocks, 1).filter(lambda s: s.source_block != s.destination_block)
>>> to_others == dm.halo(blocks, 1)
True
*/
/** Python MotionPlan.reversed
The plan in the opposite direction: source and destination are exchanged.

If several blocks hold an element, one of them sends it and all receive it, in either direction.
In `adjoint`, all of them send it.
*/
/** Python MotionPlan.adjoint
The plan in the opposite direction, in which all copies of an element are sent back.

An element that several blocks received is sent by all of them to the block that sent it, and
``op="add"`` sums the values there. It is the adjoint (transpose) of the plan as a linear map, and
equals `reversed` if no element has copies.

Examples
--------
>>> import datamover as dm
>>> owned, needed = dm.IndexList(4, [[0, 1], [2, 3]]), dm.IndexList(4, [[0, 3], [3, 0]])
>>> plan = dm.redistribute(owned, needed)
>>> plan.reversed().incoming(0), plan.adjoint().incoming(0)
({0: 1}, {0: 1, 1: 1})

Blocks that share nodes: the adjoint sums all contributions to a node in the lowest block that holds
it, and the plan copies the sum to the others, both with one array as source and destination.

>>> shared = dm.FloorPlan([dm.Region(0, 5), dm.Region(4, 9)], [0, 1])
>>> tell = dm.redistribute(shared, shared)
>>> [(s.source_block, s.destination_block, s.source_region) for s in tell.adjoint().sections(1)]
[(1, 0, Region((4,), (5,))), (1, 1, Region((5,), (9,)))]
*/
/** Python MotionPlan.then
Compose this plan with one that follows it; the result is one plan of section copies.

This plan's destination layout must be the next one's source layout. What the next plan reads and
this one does not write is left out. Takes time and memory in the pairs of sections that share a
block in between, `max_pairs` of them at most: a short plan may stand for very many.

Raises
------
Mismatch
    Those layouts differ.
OutOfRange
    There are more pairs, the sections of both plans counted too.
Unsupported
    A section changes its shape on the way or has steps, or for index lists.
*/
void bind_editing(Class<MotionPlan>& c) {
    /// Add a term: a SectionCopy, a Redistribution or a HaloExchange. Raises as
    /// `add_section`.
    c.def("add", &MotionPlan::add, "term"_a)
        .def("__len__", &MotionPlan::size)
        .def(
            "__getitem__",
            [](const MotionPlan& plan, std::int64_t i) -> PlanTerm {
                return plan[counted(plan, i)];
            },
            "index"_a)
        .def(
            "__setitem__",
            [](MotionPlan& plan, std::int64_t i, const PlanTerm& term) {
                plan.replace(counted(plan, i), term);
            },
            "index"_a, "term"_a)
        .def(
            "__delitem__", [](MotionPlan& plan, std::int64_t i) { plan.erase(counted(plan, i)); },
            "index"_a)
        .def("__add__", &MotionPlan::merged, "other"_a, nb::is_operator())
        .def("filter", &filtered, "keep"_a)
        .def("reversed", &MotionPlan::reversed)
        .def("adjoint", &MotionPlan::adjoint)
        .def("then", &MotionPlan::composed, "next"_a, "max_pairs"_a = MotionPlan::most_composed);
}

/** Python MotionPlan.sections
The sections of the plan, one by one, in ascending order of terms.

Block-cyclic terms are cut into the boxes of their blocks. Lazy: memory is taken for one block's
part at a time.

Parameters
----------
source_rank, destination_rank : int, optional
    Only those that begin, or end, in blocks of this rank.

Raises
------
OutOfRange
    There is no such rank.
Unsupported
    A layout is an `IndexList`.
*/
/** Python MotionPlan.outgoing
Number of elements that a rank sends to each peer, itself included.

`nodes` contains the number of the node of each rank, so that the copy of a replicated source on the
receiver's node sends; a mover determines them by itself. Local; takes time in the rank's own part
of the plan. Raises OutOfRange, and Mismatch if `nodes` has another length.

Examples
--------
>>> import datamover as dm
>>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
>>> columns = dm.BlockCyclic((4, 6), "(*, block)", nprocs=2)
>>> dm.redistribute(rows, columns).outgoing(0)
{0: 6, 1: 6}
*/
/** Python MotionPlan.relation
The pairs of addresses of the elements that one rank sends to another.

Parameters
----------
source_rank, destination_rank : int
    The two processes.
elem_bytes : int
    Size of an element.
order : {"C", "F"}
    Order of the elements in the local arrays, if their memory is not given.
source_memory, destination_memory : MemoryLayout, optional
    Memory layouts of the two processes; by default dense, see `dense_memory`.

Returns
-------
AddressRelation
    In the order of the message between the two. Addresses count in bytes from each array's base.

Raises
------
OutOfRange
    There is no such rank, or a section reaches outside what a block's memory holds.
Mismatch
    A memory lacks a block.

Examples
--------
>>> import datamover as dm
>>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=2)
>>> columns = dm.BlockCyclic((4, 6), "(*, block)", nprocs=2)
>>> dm.redistribute(rows, columns).relation(0, 1).runs().tolist()
[[24, 0, 3], [72, 24, 3]]
*/
void bind_asking(Class<MotionPlan>& c) {
    /// The source layout.
    c.def_prop_ro("source", [](const MotionPlan& plan) { return plan.source(); })
        /// The destination layout.
        .def_prop_ro("destination", [](const MotionPlan& plan) { return plan.destination(); })
        /// Number of processes.
        .def_prop_ro("nprocs", &MotionPlan::nprocs)
        .def(
            "sections",
            [](const MotionPlan& plan, std::optional<std::int64_t> source_rank,
               std::optional<std::int64_t> destination_rank) {
                return new SectionIterator(plan, rank_or_any(source_rank),
                                           rank_or_any(destination_rank));
            },
            "source_rank"_a = nb::none(), "destination_rank"_a = nb::none())
        /// All sections; see `sections`.
        .def("__iter__",
             [](const MotionPlan& plan) {
                 return new SectionIterator(plan, plan::any_rank, plan::any_rank);
             })
        .def("outgoing", &sizes_by_peer<&MotionPlan::outgoing>, "rank"_a, "nodes"_a = nb::none())
        /// Number of elements that a rank receives from each peer, itself included; see
        /// `outgoing`.
        .def("incoming", &sizes_by_peer<&MotionPlan::incoming>, "rank"_a, "nodes"_a = nb::none())
        .def("relation", &relation_of, "source_rank"_a, "destination_rank"_a, "elem_bytes"_a = 8,
             "order"_a = "C", "source_memory"_a = nb::none(), "destination_memory"_a = nb::none());
}

/// A number that may be of a dimension or axis; whether it is, the builders tell.
int dimension_of(std::int64_t number) {
    if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
        throw make_error(ErrorCode::out_of_range, "axis ", number, "; layouts have at most ",
                         max_dims, " dimensions");
    return static_cast<int>(number);
}

using LevelBuilder = MotionPlan(const Layout&, const Layout&, const Point&, const LevelOptions&);

void bind_level(nb::module_& m, const char* name, LevelBuilder* build) {
    m.def(
        name,
        [build](const Layout& read, const Layout& reading, const Point& factor, const Point& lower,
                const Point& upper, const Region& periodic, const std::vector<bool>& wraps,
                bool partial) {
            return build(read, reading, in_all_dims(factor, reading.dims()),
                         {lower, upper, periodic, wraps, partial});
        },
        "read"_a, "reading"_a, "factor"_a, "lower"_a, "upper"_a, "periodic"_a, "wraps"_a,
        "partial"_a);
}

void bind_builders(nb::module_& m) {
    m.def(
        "redistribute",
        [](const Layout& source, const Layout& destination, const Axes& axes,
           const std::optional<Region>& source_region,
           const std::optional<Region>& destination_region, bool partial, const Flip& flip) {
            if (!source_region && !destination_region && !flip)
                return redistribute(source, destination, axes_of(axes), partial);
            return redistribute(source, source_region.value_or(source.domain()), destination,
                                destination_region.value_or(destination.domain()), axes_of(axes),
                                partial, flip_of(flip));
        },
        "source"_a, "destination"_a, "axes"_a = nb::none(), "source_region"_a = nb::none(),
        "destination_region"_a = nb::none(), "partial"_a = false, "flip"_a = nb::none());
    m.def("halo", &halo, "layout"_a, "lower"_a, "upper"_a, "periodic"_a, "wraps"_a, "corners"_a,
          "colors"_a, "color"_a);
    m.def(
        "axis_halo",
        [](const Layout& layout, const Point& lower, const Point& upper, std::int64_t axis,
           const Region& periodic, const std::vector<bool>& wraps) {
            return axis_halo(layout, lower, upper, dimension_of(axis), periodic, wraps);
        },
        "layout"_a, "lower"_a, "upper"_a, "axis"_a, "periodic"_a, "wraps"_a);
    m.def(
        "panel_broadcast",
        [](const Layout& layout, const Region& region, std::int64_t along) {
            return panel_broadcast(layout, region, dimension_of(along));
        },
        "layout"_a, "region"_a, "along"_a);
    bind_level(m, "prolongation", &prolongation);
    bind_level(m, "restriction", &restriction);
}

}  // namespace

/** Python SectionIterator
The sections of a plan, one by one.
*/
/** Python MotionPlan
Plan of a move: a sum of terms between two layouts.

You can read, edit, merge, filter, reverse and compose plans. They do not depend on memory layouts.
`len` counts terms, `plan[i]` is a term, and iterating gives the sections that they represent.
``a + b`` has the terms of both.

Parameters
----------
source, destination : BlockCyclic, FloorPlan or IndexList
    Layouts for the same number of processes. The plan is empty at first.

Raises
------
Mismatch
    The layouts are for different numbers of processes.

Notes
-----
Source: KeLP's MotionPlan.

Examples
--------
>>> import datamover as dm
>>> halves = dm.FloorPlan([dm.Region((0, 0), (4, 4)), dm.Region((0, 4), (4, 8))], [0, 1])
>>> plan = dm.MotionPlan(halves, halves)
>>> plan.add_section(0, dm.Region((0, 3), (4, 4)), 1, dm.Region((0, 3), (4, 4)))
>>> len(plan), plan.outgoing(0), plan.reversed().outgoing(1)
(1, {1: 4}, {0: 4})
>>> del plan[0]
>>> len(plan + dm.halo(halves, 1))
1
*/
/** Python MotionPlan.to_bytes
Layouts and terms as bytes, for `from_bytes` on machines of the same byte order.

Never expanded: the size follows the terms and the layouts.

Examples
--------
>>> import datamover as dm
>>> rows = dm.BlockCyclic((10**6, 10**6), "(block, *)", nprocs=10**6)
>>> tiles = dm.BlockCyclic((10**6, 10**6), "(cyclic(64), cyclic(64))", nprocs=10**6)
>>> plan = dm.redistribute(rows, tiles)
>>> saved = plan.to_bytes()
>>> len(saved) < 1000, dm.MotionPlan.from_bytes(saved) == plan
(True, True)
*/
/** Python MotionPlan.from_bytes
The plan that `to_bytes` wrote. Malformed input raises an error.

Raises
------
InvalidArgument
    The bytes are not those of a plan: cut off, changed, of another version or byte order.
*/
/** Python MotionPlan.save
Write what `to_bytes` gives to a file.

The file appears under its name when it is complete and on the disk; a symbolic link there is
replaced. Nothing is left behind by a failure. Raises IoFailed.
*/
void bind_plan(nb::module_& m) {
    bind_iterator<SectionIterator>(m, "SectionIterator");
    Class<MotionPlan> c(m, "MotionPlan");
    c.def(nb::init<Layout, Layout>(), "source"_a, "destination"_a);
    bind_editing(c);
    bind_asking(c);
    c.def(nb::self == nb::self).def("__repr__", [](const MotionPlan& plan) {
        return concat("<MotionPlan of ", plan.size(),
                      plan.size() == 1 ? " term from " : " terms from ", plan.source().describe(),
                      " to ", plan.destination().describe(), ">");
    });
    add_bytes(c);
    // Not by its bytes: plans with index lists that only their process knows have none.
    c.def("__copy__", [](const MotionPlan& plan) { return plan; });
    c.def("__deepcopy__", [](const MotionPlan& plan, nb::handle) { return plan; }, "memo"_a);
    c.def_static("from_bytes", &of_bytes<MotionPlan>, "bytes"_a)
        .def("save", &MotionPlan::save, "path"_a)
        /// The plan in a file that `save` wrote. Raises IoFailed, or as `from_bytes`.
        .def_static("load", &MotionPlan::load, "path"_a);
    c.attr("__hash__") = nb::none();
    bind_builders(m);
}

}  // namespace datamover::bindings
