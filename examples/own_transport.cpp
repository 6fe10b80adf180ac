// SPDX-License-Identifier: BSD-3-Clause
// User-defined transport: sends all messages of a round at once, by plain sends and receives.
// Run: mpiexec -n 4 ./own_transport
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>

namespace {

/// One message of one pair; its buffer is kept if an MPI operation cannot be stopped.
struct Message {
    const datamover::PairMessages* pair;
    std::size_t number;
    std::shared_ptr<std::vector<std::byte>> buffer;
};

class AllAtOnce final : public datamover::UserTransport {
public:
    AllAtOnce(const datamover::UserTransportContext& context,
              std::vector<datamover::PairMessages> pairs)
        : context_(context), pairs_(std::move(pairs)) {
        for (const auto& pair : pairs_)
            for (std::size_t i = 0; i < pair.messages(); ++i)
                messages_.push_back({&pair, i,
                                     std::make_shared<std::vector<std::byte>>(
                                         static_cast<std::size_t>(pair.bytes(i)))});
        requests_.assign(messages_.size(), MPI_REQUEST_NULL);
    }

    ~AllAtOnce() override {
        for (std::size_t i = 0; i < messages_.size(); ++i)
            if (requests_[i] != MPI_REQUEST_NULL) context_.keep(messages_[i].buffer);
    }

    void start() override {
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            const auto& [pair, number, buffer] = messages_[i];
            const int bytes = static_cast<int>(buffer->size()),
                      peer = static_cast<int>(pair->peer());
            if (pair->sends()) {
                pair->pack(number, buffer->data());
                check(MPI_Isend(buffer->data(), bytes, MPI_BYTE, peer, context_.tag, context_.comm,
                                &requests_[i]));
            } else {
                check(MPI_Irecv(buffer->data(), bytes, MPI_BYTE, peer, context_.tag, context_.comm,
                                &requests_[i]));
            }
        }
    }

    datamover::Progress progress() override {
        int ended = MPI_UNDEFINED, is_any = 0;
        check(MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &ended, &is_any,
                          MPI_STATUS_IGNORE));
        if (!is_any) return datamover::Progress::none;
        if (ended == MPI_UNDEFINED) return datamover::Progress::complete;
        const Message& message = messages_[static_cast<std::size_t>(ended)];
        if (!message.pair->sends()) message.pair->unpack(message.number, message.buffer->data());
        return datamover::Progress::some;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < messages_.size(); ++i)
            if (requests_[i] != MPI_REQUEST_NULL) peers.push_back(messages_[i].pair->peer());
        return peers;
    }

private:
    static void check(int code) {
        if (code != MPI_SUCCESS) throw datamover::Error(datamover::ErrorCode::mpi, "MPI failed");
    }

    datamover::UserTransportContext context_;
    std::vector<datamover::PairMessages> pairs_;
    std::vector<Message> messages_;
    std::vector<MPI_Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int nprocs = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    datamover::UserTransportKind kind;
    kind.name = "all-at-once";  // carries every pair
    kind.bind = [](const auto& context, auto pairs) {
        return std::make_unique<AllAtOnce>(context, std::move(pairs));
    };
    datamover::add_transport(kind);
    const datamover::BlockCyclic rows({100, 100}, "(block, *)", nprocs);
    const datamover::BlockCyclic columns({100, 100}, "(*, cyclic(3))", nprocs);
    datamover::MoverOptions options;
    options.transport = "all-at-once";
    long wrong = 0;
    {
        datamover::Array a(MPI_COMM_WORLD, rows, sizeof(double));
        datamover::Array b(MPI_COMM_WORLD, columns, sizeof(double));
        const auto before = a.grid<double>(rows.block_of(rank));
        datamover::Region::from_shape(rows.local_shape(rank)).for_each([&](auto& local) {
            const auto global = rows.global_index(rank, local);
            before[local] = static_cast<double>(100 * global[0] + global[1]);
        });
        datamover::Mover(MPI_COMM_WORLD, datamover::redistribute(rows, columns), a, b, options)();
        const auto after = b.grid<const double>(columns.block_of(rank));
        datamover::Region::from_shape(columns.local_shape(rank)).for_each([&](auto& local) {
            const auto global = columns.global_index(rank, local);
            wrong += after[local] != static_cast<double>(100 * global[0] + global[1]);
        });
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) std::printf("%ld elements are wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}
