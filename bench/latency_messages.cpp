// SPDX-License-Identifier: BSD-3-Clause
// Hand-written halo exchanges that use MPI calls alone, in several variants.
#include "latency_messages.hpp"

#include <map>
#include <utility>

namespace bench {
namespace {

struct FaceLists {
    std::vector<Face> sends, receives;                    ///< one entry per face, own ones too
    std::vector<Face> own;                                ///< within this process
    std::map<int, std::vector<Face>> to_peer, from_peer;  ///< others only
};

FaceLists sort_faces(const Faces& faces, int rank) {
    FaceLists lists;
    for (const Face& f : faces) {
        if (f.source_rank == rank) lists.sends.push_back(f);
        if (f.destination_rank == rank) lists.receives.push_back(f);
        if (f.source_rank == rank && f.destination_rank == rank)
            lists.own.push_back(f);
        else if (f.source_rank == rank)
            lists.to_peer[f.destination_rank].push_back(f);
        else if (f.destination_rank == rank)
            lists.from_peer[f.source_rank].push_back(f);
    }
    return lists;
}

int rank_of(MPI_Comm comm) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

int count_of(std::size_t n) {
    return static_cast<int>(n);
}

/// Requests that go with the exchange that uses them.
struct Requests {
    std::vector<MPI_Request> list;
    ~Requests() {
        for (MPI_Request& r : list)
            if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
    }
    MPI_Request* add() { return &list.emplace_back(MPI_REQUEST_NULL); }
    int size() const { return count_of(list.size()); }
    void start() {
        if (!list.empty()) MPI_Startall(size(), list.data());  // Open MPI refuses none at all
    }
    void wait() { MPI_Waitall(size(), list.data(), MPI_STATUSES_IGNORE); }
};

/// All faces to or from one other process, behind one another in one buffer.
struct PeerMessage {
    int peer = 0;
    std::vector<Face> faces;
    std::vector<double> buffer;
};

std::size_t elems_of(const Faces& faces) {
    std::int64_t elems = 0;
    for (const Face& f : faces) elems += f.source.size();
    return static_cast<std::size_t>(elems);
}

std::vector<PeerMessage> messages_of(const std::map<int, Faces>& by_peer) {
    std::vector<PeerMessage> messages;
    for (const auto& [peer, faces] : by_peer)
        messages.push_back({peer, faces, std::vector<double>(elems_of(faces))});
    return messages;
}

void pack_message(PeerMessage& m, LocalBlocks& blocks) {
    double* to = m.buffer.data();
    for (const Face& f : m.faces) {
        pack(blocks.block(f.source_block), blocks.stored_edge, f.source, to);
        to += f.source.size();
    }
}

void unpack_message(const PeerMessage& m, LocalBlocks& blocks) {
    const double* from = m.buffer.data();
    for (const Face& f : m.faces) {
        unpack(from, blocks.block(f.destination_block), blocks.stored_edge, f.destination);
        from += f.source.size();
    }
}

void copy_own(const std::vector<Face>& own, LocalBlocks& blocks) {
    for (const Face& f : own)
        copy_face(blocks.block(f.source_block), blocks.block(f.destination_block),
                  blocks.stored_edge, f);
}

MPI_Datatype box_type(std::int64_t stored_edge, const Box& box) {
    const int e = static_cast<int>(stored_edge);
    const int sizes[3] = {e, e, e};
    int extents[3], starts[3];
    for (int d = 0; d < 3; ++d) {
        extents[d] = static_cast<int>(box.extent[static_cast<std::size_t>(d)]);
        starts[d] = static_cast<int>(box.begin[static_cast<std::size_t>(d)]);
    }
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_subarray(3, sizes, extents, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/// Several faces of several blocks as one datatype of absolute addresses.
MPI_Datatype faces_type(const std::vector<Face>& faces, LocalBlocks& blocks, bool source) {
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Aint> addresses;
    for (const Face& f : faces) {
        types.push_back(box_type(blocks.stored_edge, source ? f.source : f.destination));
        MPI_Get_address(blocks.block(source ? f.source_block : f.destination_block),
                        &addresses.emplace_back());
    }
    const std::vector<int> ones(faces.size(), 1);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_struct(count_of(faces.size()), ones.data(), addresses.data(), types.data(),
                           &type);
    MPI_Type_commit(&type);
    for (MPI_Datatype& t : types) MPI_Type_free(&t);
    return type;
}

struct MergedState {
    FaceLists lists;
    std::vector<PeerMessage> sends, receives;
    Requests send_requests, receive_requests;
    std::vector<int> arrived;

    MergedState(const Faces& faces, int rank)
        : lists(sort_faces(faces, rank)),
          sends(messages_of(lists.to_peer)),
          receives(messages_of(lists.from_peer)),
          arrived(receives.size()) {}

    /// Unpacks messages in the order in which they arrive.
    void unpack_all(LocalBlocks& blocks) {
        for (std::size_t left = receives.size(); left > 0;) {
            int count = 0;
            MPI_Waitsome(receive_requests.size(), receive_requests.list.data(), &count,
                         arrived.data(), MPI_STATUSES_IGNORE);
            for (int k = 0; k < count; ++k)
                unpack_message(
                    receives[static_cast<std::size_t>(arrived[static_cast<std::size_t>(k)])],
                    blocks);
            left -= static_cast<std::size_t>(count);
        }
    }
};

}  // namespace

LocalBlocks::LocalBlocks(const BlockGrid& grid, int rank) : stored_edge(grid.stored_edge()) {
    std::int64_t mine = 0;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b)
        slot.push_back(grid.owner(b) == rank ? mine++ : -1);
    data.resize(static_cast<std::size_t>(mine * grid.stored_elems()));
}

Exchange persistent_faces(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks) {
    struct State {
        FaceLists lists;
        std::vector<double> out, in;
        Requests sends, receives;
    };
    auto s = std::make_shared<State>();
    s->lists = sort_faces(faces, rank_of(comm));
    s->out.resize(elems_of(s->lists.sends));
    s->in.resize(elems_of(s->lists.receives));
    double *out = s->out.data(), *in = s->in.data();
    for (const Face& f : s->lists.receives) {
        MPI_Recv_init(in, static_cast<int>(f.destination.size()), MPI_DOUBLE, f.source_rank, f.tag,
                      comm, s->receives.add());
        in += f.destination.size();
    }
    for (const Face& f : s->lists.sends) {
        MPI_Send_init(out, static_cast<int>(f.source.size()), MPI_DOUBLE, f.destination_rank, f.tag,
                      comm, s->sends.add());
        out += f.source.size();
    }
    return [s, &blocks] {
        s->receives.start();
        double* to = s->out.data();
        for (const Face& f : s->lists.sends) {
            pack(blocks.block(f.source_block), blocks.stored_edge, f.source, to);
            to += f.source.size();
        }
        s->sends.start();
        s->receives.wait();
        const double* from = s->in.data();
        for (const Face& f : s->lists.receives) {
            unpack(from, blocks.block(f.destination_block), blocks.stored_edge, f.destination);
            from += f.destination.size();
        }
        s->sends.wait();
    };
}

Exchange persistent_datatypes(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks) {
    auto requests = std::make_shared<Requests>();
    const FaceLists lists = sort_faces(faces, rank_of(comm));
    const auto with_type = [&](const Box& box, auto&& make) {
        MPI_Datatype type = box_type(blocks.stored_edge, box);
        make(type);
        MPI_Type_free(&type);
    };
    for (const Face& f : lists.receives)
        with_type(f.destination, [&](MPI_Datatype type) {
            MPI_Recv_init(blocks.block(f.destination_block), 1, type, f.source_rank, f.tag, comm,
                          requests->add());
        });
    for (const Face& f : lists.sends)
        with_type(f.source, [&](MPI_Datatype type) {
            MPI_Send_init(blocks.block(f.source_block), 1, type, f.destination_rank, f.tag, comm,
                          requests->add());
        });
    return [requests] {
        requests->start();
        requests->wait();
    };
}

Exchange persistent_merged(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks) {
    auto s = std::make_shared<MergedState>(faces, rank_of(comm));
    for (PeerMessage& m : s->receives)
        MPI_Recv_init(m.buffer.data(), count_of(m.buffer.size()), MPI_DOUBLE, m.peer, 0, comm,
                      s->receive_requests.add());
    for (PeerMessage& m : s->sends)
        MPI_Send_init(m.buffer.data(), count_of(m.buffer.size()), MPI_DOUBLE, m.peer, 0, comm,
                      s->send_requests.add());
    return [s, &blocks] {
        s->receive_requests.start();
        for (std::size_t i = 0; i < s->sends.size(); ++i) {
            pack_message(s->sends[i], blocks);
            MPI_Start(&s->send_requests.list[i]);
        }
        copy_own(s->lists.own, blocks);
        s->unpack_all(blocks);
        s->send_requests.wait();
    };
}

Exchange persistent_merged_datatypes(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks) {
    struct State {
        std::vector<Face> own;
        Requests requests;
    };
    auto s = std::make_shared<State>();
    const FaceLists lists = sort_faces(faces, rank_of(comm));
    s->own = lists.own;
    for (const auto& [peer, theirs] : lists.from_peer) {
        MPI_Datatype type = faces_type(theirs, blocks, false);
        MPI_Recv_init(MPI_BOTTOM, 1, type, peer, 0, comm, s->requests.add());
        MPI_Type_free(&type);
    }
    for (const auto& [peer, theirs] : lists.to_peer) {
        MPI_Datatype type = faces_type(theirs, blocks, true);
        MPI_Send_init(MPI_BOTTOM, 1, type, peer, 0, comm, s->requests.add());
        MPI_Type_free(&type);
    }
    return [s, &blocks] {
        s->requests.start();
        copy_own(s->own, blocks);
        s->requests.wait();
    };
}

Exchange isend_merged(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks) {
    auto s = std::make_shared<MergedState>(faces, rank_of(comm));
    s->receive_requests.list.assign(s->receives.size(), MPI_REQUEST_NULL);
    s->send_requests.list.assign(s->sends.size(), MPI_REQUEST_NULL);
    return [s, comm, &blocks] {
        for (std::size_t i = 0; i < s->receives.size(); ++i) {
            PeerMessage& m = s->receives[i];
            MPI_Irecv(m.buffer.data(), count_of(m.buffer.size()), MPI_DOUBLE, m.peer, 0, comm,
                      &s->receive_requests.list[i]);
        }
        for (std::size_t i = 0; i < s->sends.size(); ++i) {
            PeerMessage& m = s->sends[i];
            pack_message(m, blocks);
            MPI_Isend(m.buffer.data(), count_of(m.buffer.size()), MPI_DOUBLE, m.peer, 0, comm,
                      &s->send_requests.list[i]);
        }
        copy_own(s->lists.own, blocks);
        s->unpack_all(blocks);
        s->send_requests.wait();
    };
}

}  // namespace bench
