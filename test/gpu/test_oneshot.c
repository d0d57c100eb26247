/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one-shot kernels through the CUDA driver: all ranks' kernels run at once on one GPU, in streams of their own,
 * with a mailbox each in one allocation. Every kernel is checked against the scalar reference, over ranks, counts and
 * alignments, in place and not, with guard zones, for all ranks' elements and by pairs; so are flags from call to call,
 * and that a kernel whose peer never comes leaves when its host says so. On the emulated driver and on a real one;
 * without a GPU it is skipped (77).
 */
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "kernel_driver.h"
#include "kernel_reference.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ompi/constants.h"

enum { GUARD = 64, POISON = 0xa5, MAX_RANKS = 8, MAX_COUNT = 9001 };

static gpuhier_reduce_t kernels;
static CUstream streams[MAX_RANKS];
static size_t capacity;               /* of each rank's `in` and `out` */
static CUdeviceptr buffers;           /* in of rank 0, out of rank 0, in of rank 1, .. */
static CUdeviceptr boxes, counters;   /* of all ranks */
static uint64_t box_bytes;            /* of one rank's mailbox */
static unsigned char *words;          /* 128 bytes a rank */
static unsigned char *before, *after; /* host images of all buffers */
static uint32_t flag = UINT32_MAX - 40;
static uint64_t number;
static unsigned long cases, failures;

/* Who gives to whom. By pairs a rank's input has a message for each rank, or one; and so has its output of those that
 * move. Messages may be of unlike lengths, of which some are 0; the last rank's then comes first, and there are holes.
 */
typedef enum way { ALL, SCATTER, TO_ROOT, GATHER, EXCHANGE, FROM_ROOT } way_t;

typedef struct shape {
    int index; /* GPUHIER_REDUCE_COUNT: gpuhier_oneshot_move */
    way_t way;
    unsigned root;
    const kernel_reference_t *reference;
    unsigned nranks;
    uint64_t count;
    unsigned alignment; /* 0: all on 16 bytes; 1: one element off; 2: differing by bytes */
    bool in_place;
    bool two_shots;
    bool uneven;
} shape_t;

static void case_failed(const shape_t *s, unsigned rank, const char *what, uint64_t at)
{
    if (++failures <= 20) {
        printf(
            "%s of %u ranks, way %d, count %llu alignment %u in place %d, shots %d, uneven %d: rank %u: %s (at %llu)\n",
            s->index < GPUHIER_REDUCE_COUNT ? kernel_names[s->index] : "move", s->nranks, s->way,
            (unsigned long long) s->count, s->alignment, s->in_place, 1 + s->two_shots, s->uneven, rank, what,
            (unsigned long long) at);
    }
}

/* Of the first element in buffer b, from the start of the buffer. */
static size_t offset_of(const shape_t *s, unsigned b)
{
    const size_t off[] = {0, s->reference->elem_bytes, 1 + b % 3};
    return GUARD + off[s->alignment];
}

static unsigned in_of(unsigned rank)
{
    return 2 * rank;
}

static unsigned out_of(const shape_t *s, unsigned rank)
{
    return s->in_place ? in_of(rank) : 2 * rank + 1;
}

static bool gives(const shape_t *s)
{
    return SCATTER == s->way || TO_ROOT == s->way || EXCHANGE == s->way;
}

static bool takes(const shape_t *s)
{
    return GATHER == s->way || FROM_ROOT == s->way || EXCHANGE == s->way;
}

/* By pairs: elements of a message. */
static uint64_t length_of(const shape_t *s, unsigned from, unsigned to)
{
    const unsigned by = takes(s) ? from + (gives(s) ? 2 * to : 0) : to;
    if (TO_ROOT == s->way || FROM_ROOT == s->way) {
        return by == s->root ? s->count : 0;
    }
    return !s->uneven || 0 == by % 3 ? s->count : 1 == by % 3 ? 0 : (s->count + 1) / 2;
}

/* Bytes before the message for a peer, or of it, in what a rank has of all. */
static uint64_t place_of(const shape_t *s, unsigned rank, unsigned peer, bool given)
{
    uint64_t elements = s->uneven || TO_ROOT == s->way || FROM_ROOT == s->way ? 0 : peer * s->count;
    for (unsigned i = s->nranks - 1; s->uneven && i > peer; --i) {
        elements += (given ? length_of(s, rank, i) : length_of(s, i, rank)) + 1;
    }
    return elements * s->reference->elem_bytes;
}

/* Of a rank's first element, from the start of all buffers. */
static size_t in_at(const shape_t *s, unsigned rank)
{
    return in_of(rank) * capacity + offset_of(s, in_of(rank))
           + (GATHER == s->way && s->in_place ? place_of(s, rank, rank, false) : 0);
}

/* The same of its message for another rank, and the elements of that. */
static size_t message_at(const shape_t *s, unsigned rank, unsigned to, uint64_t *count_p)
{
    *count_p = ALL == s->way ? s->count : length_of(s, rank, to);
    return in_at(s, rank) + (gives(s) ? place_of(s, rank, to, true) : 0);
}

static size_t out_at(const shape_t *s, unsigned rank)
{
    return out_of(s, rank) * capacity + offset_of(s, out_of(s, rank));
}

static _Atomic uint64_t *word_of(unsigned rank, size_t at)
{
    return (_Atomic uint64_t *) (void *) (words + 128 * rank + at);
}

static void next_flag(void)
{
    if (0 == ++flag) { /* 0 is what a new mailbox holds */
        flag = 1;
    }
}

static void rank_launch(const shape_t *s, unsigned rank)
{
    const uint64_t part_bytes = gpuhier_oneshot_part(s->count * s->reference->elem_bytes, s->nranks, s->two_shots);
    gpuhier_oneshot_args_t args = {.own = boxes + rank * box_bytes,
                                   .part_bytes = part_bytes,
                                   .in = buffers + in_at(s, rank),
                                   .out = buffers + out_at(s, rank),
                                   .count = s->count,
                                   .counter = counters + 64 * rank,
                                   .words = (uint64_t) (uintptr_t) (words + 128 * rank),
                                   .number = number,
                                   .nranks = s->nranks,
                                   .index = rank,
                                   .two_shots = s->two_shots,
                                   .by_pairs = ALL != s->way};
    for (unsigned peer = 0; peer < s->nranks; ++peer) {
        args.box[peer] = boxes + peer * box_bytes + rank * part_bytes;
        args.flag[peer] = flag;
        args.given.bytes[peer] = (uint32_t) (length_of(s, rank, peer) * s->reference->elem_bytes);
        args.given.at[peer] = gives(s) ? place_of(s, rank, peer, true) : 0;
        args.taken.bytes[peer] = (uint32_t) (length_of(s, peer, rank) * s->reference->elem_bytes);
        args.taken.at[peer] = takes(s) ? place_of(s, rank, peer, false) : 0;
    }
    if (OMPI_SUCCESS != gpuhier_reduce_oneshot(&kernels, s->index, &args, streams[rank])) {
        case_failed(s, rank, "cannot be launched", 0);
    }
}

/* How the rank's kernel ended; waits for the word, not for the stream, as the component does. */
static uint64_t rank_ended(unsigned rank)
{
    const struct timespec pause = {.tv_nsec = 20000};
    uint64_t word;
    while (number != (word = atomic_load(word_of(rank, GPUHIER_ONESHOT_DONE))) >> 2) {
        nanosleep(&pause, NULL);
    }
    return word & 3;
}

static void fill(const shape_t *s, uint64_t *random)
{
    memset(before, POISON, 2 * MAX_RANKS * capacity);
    for (unsigned rank = 0; rank < s->nranks; ++rank) {
        for (unsigned to = 0; to < (gives(s) ? s->nranks : 1); ++to) {
            uint64_t count;
            const size_t at = message_at(s, rank, to, &count);
            for (uint64_t i = 0; i < count; ++i) {
                s->reference->fill(before + at + i * s->reference->elem_bytes, kernel_random(random));
            }
        }
    }
    must(gpuhier_cu.cuMemcpyHtoD(buffers, before, 2 * MAX_RANKS * capacity), "copy to the GPU");
    must(gpuhier_cu.cuStreamSynchronize(NULL), "wait for the copy");
}

static void check_out(const shape_t *s, unsigned rank)
{
    const kernel_reference_t *reference = s->reference;
    const unsigned b = out_of(s, rank);
    uint64_t count;
    const size_t from = message_at(s, 0, rank, &count) - in_at(s, 0);
    const size_t bytes = count * reference->elem_bytes, off = offset_of(s, b);
    const unsigned char *was = before + b * capacity, *is = after + b * capacity;
    if (0 != memcmp(is, was, off) || 0 != memcmp(is + off + bytes, was + off + bytes, capacity - off - bytes)) {
        case_failed(s, rank, "wrote outside its range", 0);
    }
    for (uint64_t i = 0; i < count; ++i) {
        const size_t at = i * reference->elem_bytes;
        unsigned char expected[16], right[16];
        memcpy(expected, before + in_at(s, 0) + from + at, reference->elem_bytes);
        for (unsigned k = 1; k < s->nranks; ++k) {
            memcpy(right, before + in_at(s, k) + from + at, reference->elem_bytes);
            reference->reduce(expected, right);
            memcpy(expected, right, reference->elem_bytes);
        }
        if (!reference->equal(is + off + at, expected)) {
            case_failed(s, rank, "wrong result", i);
            return;
        }
        if (0 != memcmp(is + off + at + reference->gap_at, was + off + at + reference->gap_at, reference->gap_bytes)) {
            case_failed(s, rank, "changed the padding", i);
            return;
        }
    }
}

/* Of gpuhier_oneshot_move: the whole buffer. */
static void check_moved(const shape_t *s, unsigned rank)
{
    static unsigned char expected[MAX_COUNT * 4 + 3 * GUARD];
    const size_t begin = out_of(s, rank) * capacity, off = offset_of(s, out_of(s, rank));
    memcpy(expected, before + begin, capacity);
    for (unsigned k = 0; k < s->nranks; ++k) {
        uint64_t count;
        const size_t from = message_at(s, k, rank, &count);
        memcpy(expected + off + place_of(s, rank, k, false), before + from, count);
    }
    if (0 != memcmp(after + begin, expected, capacity)) {
        case_failed(s, rank, "moved wrongly", 0);
    }
}

static void case_run(const shape_t *s, uint64_t *random)
{
    fill(s, random);
    next_flag();
    ++number;
    for (unsigned k = 0; k < s->nranks; ++k) {
        rank_launch(s, (k + (unsigned) number) % s->nranks);
    }
    for (unsigned rank = 0; rank < s->nranks; ++rank) {
        if (GPUHIER_ONESHOT_COMPLETE != rank_ended(rank)) {
            case_failed(s, rank, "left", 0);
        }
    }
    must(gpuhier_cu.cuMemcpyDtoH(after, buffers, 2 * MAX_RANKS * capacity), "copy from the GPU");
    for (unsigned rank = 0; rank < s->nranks; ++rank) {
        if (GPUHIER_REDUCE_COUNT == s->index) {
            check_moved(s, rank);
        } else {
            check_out(s, rank);
        }
        const size_t in = in_of(rank) * capacity;
        if (!s->in_place && 0 != memcmp(before + in, after + in, capacity)) {
            case_failed(s, rank, "changed its input", 0);
        }
    }
    ++cases;
}

static void kernel_check(int index)
{
    static const unsigned nranks[] = {2, 3, 5, 6, MAX_RANKS};
    static const uint64_t count[] = {1, 13, 64, 1021};
    shape_t s = {.index = index, .reference = kernel_reference_find(kernel_names[index])};
    uint64_t random = 42 + (uint64_t) index;
    if (NULL == s.reference) {
        printf("%s: no reference\n", kernel_names[index]);
        ++failures;
        return;
    }
    for (unsigned n = 0; n < sizeof(nranks) / sizeof(nranks[0]); ++n) {
        for (unsigned c = 0; c < sizeof(count) / sizeof(count[0]); ++c) {
            s.nranks = nranks[n];
            s.count = count[c];
            s.alignment = (n + c + (unsigned) index) % 3;
            s.in_place = (n + c) % 2;
            for (unsigned shots = 1; shots <= 2; ++shots) {
                s.two_shots = 2 == shots;
                case_run(&s, &random);
            }
            s.two_shots = false;
            s.root = (n + c) % s.nranks;
            s.way = TO_ROOT;
            case_run(&s, &random);
            s.way = SCATTER;
            s.count = (s.count + s.nranks - 1) / s.nranks;
            s.in_place = false;
            for (int uneven = 0; uneven < 2; ++uneven) {
                s.uneven = 0 != uneven;
                case_run(&s, &random);
            }
            s.uneven = false;
            s.way = ALL;
        }
    }
}

/* Lengths of messages around those of a unit, and more than the grid has threads. */
static void check_moves(void)
{
    shape_t s = {.index = GPUHIER_REDUCE_COUNT, .reference = kernel_reference_find("gpuhier_bor_uint8")};
    uint64_t random = 11;
    for (unsigned i = 0; i < 72; ++i) {
        s.way = GATHER + (way_t) (i % 3);
        s.nranks = 2 + i / 3 % (MAX_RANKS - 1);
        s.root = i % s.nranks;
        s.alignment = i / 2 % 3;
        s.in_place = i / 3 % 2;
        s.uneven = (GATHER == s.way || (EXCHANGE == s.way && !s.in_place)) && i / 6 % 2;
        s.count = 0 == i % 4 ? MAX_COUNT * 4 / s.nranks : 1 + kernel_random(&random) % (0 == i % 2 ? 40 : 3000);
        case_run(&s, &random);
    }
}

/* More elements than the grid has threads; sizes up and down, so that mailboxes hold words of many calls. */
static void check_sizes(void)
{
    shape_t s = {.nranks = 4, .reference = kernel_reference_find("gpuhier_sum_float")};
    uint64_t random = 7;
    while (0 != strcmp(kernel_names[s.index], "gpuhier_sum_float")) {
        ++s.index;
    }
    for (unsigned i = 0; i < 24; ++i) {
        s.count = 0 == i % 3 ? MAX_COUNT : 1 + kernel_random(&random) % MAX_COUNT;
        s.alignment = i % 3;
        s.in_place = i % 2;
        s.two_shots = i / 2 % 2;
        case_run(&s, &random);
    }
}

/* A peer never comes: the kernels stay, and leave when told. Their mailboxes serve the next call. */
static void check_abort(bool two_shots)
{
    shape_t s = {
        .nranks = 3, .count = 1000, .two_shots = two_shots, .reference = kernel_reference_find(kernel_names[0])};
    const struct timespec while_ = {.tv_nsec = 20000000};
    uint64_t random = 3;
    fill(&s, &random);
    next_flag();
    ++number;
    rank_launch(&s, 0);
    rank_launch(&s, 2);
    nanosleep(&while_, NULL);
    for (unsigned rank = 0; rank < 3; rank += 2) {
        if (number == atomic_load(word_of(rank, GPUHIER_ONESHOT_DONE)) >> 2) {
            case_failed(&s, rank, "ended without its peer", 0);
        }
        atomic_store(word_of(rank, GPUHIER_ONESHOT_ABORT), number);
        if (GPUHIER_ONESHOT_LEFT != rank_ended(rank)) {
            case_failed(&s, rank, "did not leave", 0);
        }
        must(gpuhier_cu.cuStreamSynchronize(streams[rank]), "wait for a kernel that leaves");
    }
    ++cases;
    case_run(&s, &random);
}

static void check_arguments(void)
{
    gpuhier_oneshot_args_t args = {.count = 1, .nranks = 1};
    const bool few = OMPI_ERR_BAD_PARAM == gpuhier_reduce_oneshot(&kernels, 0, &args, streams[0]);
    args.nranks = GPUHIER_KERNEL_MAX_PEERS + 1;
    const bool many = OMPI_ERR_BAD_PARAM == gpuhier_reduce_oneshot(&kernels, 0, &args, streams[0]);
    args.nranks = 2;
    const bool index =
        OMPI_ERR_BAD_PARAM == gpuhier_reduce_oneshot(&kernels, GPUHIER_REDUCE_COUNT + 1, &args, streams[0]);
    if (!few || !many || !index) {
        printf("wrong arguments are not refused\n");
        ++failures;
    }
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    const int status = kernels_open(&kernels, &device, &context);
    if (0 != status) {
        return status;
    }
    for (unsigned rank = 0; rank < MAX_RANKS; ++rank) {
        must(gpuhier_cu.cuStreamCreateWithPriority(&streams[rank], CU_STREAM_NON_BLOCKING, 0), "make a stream");
    }
    capacity = MAX_COUNT * 4 + 3 * GUARD;
    box_bytes = MAX_RANKS * gpuhier_oneshot_part(capacity, MAX_RANKS, false);
    before = malloc(2 * MAX_RANKS * capacity);
    after = malloc(2 * MAX_RANKS * capacity);
    void *zeros = calloc(MAX_RANKS, box_bytes);
    if (NULL == before || NULL == after || NULL == zeros) {
        perror("malloc");
        return 1;
    }
    must(gpuhier_cu.cuMemAlloc(&buffers, 2 * MAX_RANKS * capacity), "allocate");
    must(gpuhier_cu.cuMemAlloc(&boxes, MAX_RANKS * box_bytes), "allocate");
    must(gpuhier_cu.cuMemAlloc(&counters, 64 * MAX_RANKS), "allocate");
    must(gpuhier_cu.cuMemHostAlloc((void **) &words, 128 * MAX_RANKS, CU_MEMHOSTALLOC_PORTABLE), "allocate");
    memset(words, 0, 128 * MAX_RANKS);
    must(gpuhier_cu.cuMemcpyHtoD(boxes, zeros, MAX_RANKS * box_bytes), "clear");
    must(gpuhier_cu.cuMemcpyHtoD(counters, zeros, 64 * MAX_RANKS), "clear");
    for (int i = 0; i < GPUHIER_REDUCE_COUNT; ++i) {
        kernel_check(i);
    }
    check_sizes();
    check_moves();
    check_abort(false);
    check_abort(true);
    check_arguments();
    printf("%d one-shot kernels, %lu cases, %lu failures\n", GPUHIER_REDUCE_COUNT + 1, cases, failures);
    gpuhier_cu.cuMemFree(buffers);
    gpuhier_cu.cuMemFree(boxes);
    gpuhier_cu.cuMemFree(counters);
    gpuhier_cu.cuMemFreeHost(words);
    for (unsigned rank = 0; rank < MAX_RANKS; ++rank) {
        gpuhier_cu.cuStreamDestroy(streams[rank]);
    }
    gpuhier_reduce_close(&kernels);
    gpuhier_cu.cuCtxPopCurrent(&context);
    gpuhier_cu.cuDevicePrimaryCtxRelease(device);
    free(before);
    free(after);
    free(zeros);
    return 0 != failures || 0 == cases;
}
