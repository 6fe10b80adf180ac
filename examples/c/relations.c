/* SPDX-License-Identifier: BSD-3-Clause */
/* Relations in C: moves elements between addresses, without layouts. */
#include <stdlib.h>
#include <string.h>

#include "checked.h"

enum { ELEMS = 4 };

/* The upper row of a matrix of 2 x 4, element by element, to the first column of one of 4 x 2. */
static const int64_t from[ELEMS] = {0, 1, 2, 3}, to[ELEMS] = {0, 2, 4, 6};

static void copies(const datamover_relation* row_to_column) {
    double source[8] = {1, 2, 3, 4}, destination[8] = {0}, message[ELEMS];
    float sums[8] = {10};
    int64_t begin_bytes, end_bytes;

    succeed(
        datamover_relation_bounds(row_to_column, DATAMOVER_DESTINATION, &begin_bytes, &end_bytes));
    expect(begin_bytes == 0 && end_bytes == 7 * 8, "it writes 7 doubles' worth of memory");
    succeed(datamover_relation_copy(row_to_column, source, destination));
    expect(destination[6] == 4, "the last element is in the last row");

    /* The same through a message. */
    memset(destination, 0, sizeof destination);
    succeed(datamover_relation_gather(row_to_column, source, message));
    succeed(datamover_relation_scatter(row_to_column, message, destination));
    expect(message[1] == 2 && destination[2] == 2, "a message has the elements in order");

    /* Added to existing elements of another type: 8 bytes at the source, 4 at the destination. */
    {
        datamover_relation* mixed;
        succeed(datamover_relation_from_pairs(ELEMS, from, to, 8, 4, &mixed));
        succeed(datamover_relation_update(mixed, source, DATAMOVER_FLOAT64, sums, DATAMOVER_FLOAT32,
                                          "add"));
        expect(sums[0] == 11 && sums[6] == 4, "sums of floats");
        succeed(datamover_relation_free(&mixed));
    }
}

static void encodings(const datamover_relation* row_to_column) {
    datamover_relation *runs, *half, *other_half, *joined, *read;
    int64_t elems, nbytes, length;
    const char* encoding;
    void* bytes;

    succeed(datamover_relation_encode(row_to_column, "runs", &runs));
    succeed(datamover_relation_encoding(runs, &encoding));
    succeed(datamover_relation_size(runs, &elems));
    succeed(datamover_relation_nbytes(runs, &nbytes));
    expect(!strcmp(encoding, "runs") && elems == ELEMS && nbytes > 0, "the same pairs, as runs");

    /* Each side of a message needs one half. */
    succeed(datamover_relation_split(runs, &half, &other_half));
    succeed(datamover_relation_join(half, other_half, &joined));

    /* Functions that fill memory are called twice: for the size, then with memory. */
    succeed(datamover_relation_to_bytes(joined, NULL, 0, &length));
    bytes = malloc((size_t)length);
    succeed(datamover_relation_to_bytes(joined, bytes, length, &length));
    succeed(datamover_relation_from_bytes(bytes, length, &read));
    succeed(datamover_relation_size(read, &elems));
    expect(elems == ELEMS, "no pair is lost on the way");
    free(bytes);
    succeed(datamover_relation_free(&runs));
    succeed(datamover_relation_free(&half));
    succeed(datamover_relation_free(&other_half));
    succeed(datamover_relation_free(&joined));
    succeed(datamover_relation_free(&read));
}

/* Descriptions of the memory for other interfaces. */
static void pieces(const datamover_relation* row_to_column) {
    double column[8] = {0}, row[ELEMS] = {5, 6, 7, 8};
    datamover_piece piece[ELEMS];
    MPI_Datatype type;
    int64_t count;
    int bytes;

    succeed(datamover_relation_iovec(row_to_column, DATAMOVER_DESTINATION, column, piece, ELEMS,
                                     &count));
    expect(count == ELEMS && piece[1].data == &column[2] && piece[1].bytes == 8, "four pieces");
    succeed(datamover_relation_datatype(row_to_column, DATAMOVER_DESTINATION, MPI_DOUBLE, &type));
    MPI_Type_size(type, &bytes);
    expect(bytes == ELEMS * 8, "a datatype of four doubles");
    MPI_Sendrecv(row, ELEMS, MPI_DOUBLE, 0, 1, column, 1, type, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    expect(column[6] == 8, "MPI puts them there");
    MPI_Type_free(&type);
}

/* Messages to a process that does not have the relation. */
static void put_and_get(const datamover_relation* row_to_column) {
    double source[8] = {1, 2, 3, 4}, theirs[8] = {0}, mine[8] = {0};
    char message[1024], request[1024], answer[1024];
    int64_t length, request_length;

    succeed(
        datamover_relation_put_message(row_to_column, source, message, sizeof message, &length));
    succeed(datamover_accept_put(message, length, theirs, 0, sizeof theirs));
    expect(theirs[4] == 3, "put");

    succeed(
        datamover_relation_get_request(row_to_column, request, sizeof request, &request_length));
    succeed(datamover_answer_get(request, request_length, source, 0, sizeof source, answer,
                                 sizeof answer, &length));
    succeed(datamover_relation_scatter(row_to_column, answer, mine));
    expect(mine[4] == 3, "get");
}

int main(int argc, char** argv) {
    datamover_relation* row_to_column;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    succeed(datamover_relation_from_pairs(ELEMS, from, to, 8, 8, &row_to_column));
    copies(row_to_column);
    encodings(row_to_column);
    pieces(row_to_column);
    put_and_get(row_to_column);
    succeed(datamover_relation_free(&row_to_column));
    if (rank == 0) puts("relations: as said");
    MPI_Finalize();
    return 0;
}
