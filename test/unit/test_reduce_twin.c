/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels' twin against a scalar reference: every kernel, both forms, many numbers of sources,
 * counts and alignments, in place and not. Also that a kernel writes nothing but its destinations
 * (padding included), that both forms report exactly the bytes they should, per buffer, and
 * that they translate every address: device memory lies in a window that faults. The same for the ranges that
 * gpuhier_moves moves at once.
 */
#include "../cudasim/cudasim_twin.h"
#include "../gpu/kernel_reference.h"
#include "gpuhier_kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_BUFFERS = 2 * GPUHIER_KERNEL_MAX_PEERS,
    GUARD = 64,
    POISON = 0xa5,
    MAX_BYTES = 40000,
    MAX_OFFSET = GUARD + 4 * 16
};

/* One buffer of a case: host memory, seen by the kernel at a device address unless it is "pinned". */
typedef struct buffer {
    unsigned char *memory; /* of capacity bytes */
    unsigned char *before; /* the contents at launch */
    size_t offset;         /* of the first element */
    uint64_t address;      /* of the first element, as the kernel is told */
    size_t read, written;  /* bytes reported by the twin */
} buffer_t;

static unsigned char *arena;
static size_t arena_bytes, capacity;
static size_t used; /* of each buffer's capacity, by the present case */
static uintptr_t window;
static buffer_t buffers[MAX_BUFFERS];
static unsigned nbuffers;
static unsigned long stray; /* reports of addresses outside any buffer */
static unsigned long reports;
static unsigned long cases, failures;

static void traffic(const struct cudasim_launch *launch, uintptr_t address, size_t bytes, int is_write)
{
    (void) launch;
    ++reports;
    for (unsigned b = 0; b < nbuffers; ++b) {
        const uintptr_t start = (uintptr_t) buffers[b].address - buffers[b].offset;
        if (address >= start && address + bytes <= start + capacity) {
            *(is_write ? &buffers[b].written : &buffers[b].read) += bytes;
            return;
        }
    }
    ++stray;
}

/* What a case varies. */
typedef struct shape {
    const cudasim_kernel_t *kernel;
    const kernel_reference_t *reference; /* NULL: gpuhier_copy */
    size_t elem_bytes;
    uint32_t nsrc, ndst;
    uint64_t count;
    int alignment;        /* see offset_of */
    unsigned odd;         /* ALIGN_ANY: this buffer begins so many bytes after where it would, like the others, */
    size_t shift, common; /* and the others so many after a boundary */
    bool in_place;        /* destination d is source d */
    bool exact;
} shape_t;

enum { ALIGN_16, ALIGN_ELEMENT, ALIGN_MIXED, ALIGN_ONE_ODD, ALIGN_BYTES, ALIGN_KINDS, ALIGN_ANY = ALIGN_KINDS };

static size_t offset_of(const shape_t *s, unsigned b)
{
    switch (s->alignment) {
    case ALIGN_16:
        return GUARD;
    case ALIGN_ELEMENT: /* congruent, but not on a boundary */
        return GUARD + s->elem_bytes;
    case ALIGN_MIXED:
        return GUARD + (b % 5) * s->elem_bytes;
    case ALIGN_ONE_ODD:
        return GUARD + (1 == b ? s->elem_bytes : 0);
    case ALIGN_ANY:
        return GUARD + s->common + (s->odd == b ? s->shift : 0);
    default:
        return GUARD + 1 + b % 3;
    }
}

static void case_failed(const shape_t *s, const char *what, uint64_t at)
{
    if (++failures <= 20) {
        printf("%s nsrc %u ndst %u count %llu alignment %d in place %d exact %d: %s (at %llu)\n", s->kernel->name,
               s->nsrc, s->ndst, (unsigned long long) s->count, s->alignment, s->in_place, s->exact, what,
               (unsigned long long) at);
    }
}

/* Places and fills all buffers; those with a number that 5 divides are pinned host memory. */
static void case_prepare(const shape_t *s, gpuhier_kernel_args_t *args, uint64_t *random)
{
    nbuffers = s->in_place ? (s->nsrc > s->ndst ? s->nsrc : s->ndst) : s->nsrc + s->ndst;
    memset(args, 0xff, sizeof(*args));
    args->nsrc = s->nsrc;
    args->ndst = s->ndst;
    args->count = s->count;
    used = s->count * s->elem_bytes + MAX_OFFSET + GUARD;
    for (unsigned b = 0; b < nbuffers; ++b) {
        buffer_t *buffer = &buffers[b];
        buffer->memory = arena + b * capacity;
        buffer->before = arena + (MAX_BUFFERS + b) * capacity;
        buffer->offset = offset_of(s, b);
        buffer->address =
            0 == b % 5 ? (uintptr_t) buffer->memory + buffer->offset : window + b * capacity + buffer->offset;
        buffer->read = buffer->written = 0;
        memset(buffer->memory, POISON, used);
        if (b < s->nsrc) {
            for (uint64_t i = 0; i < s->count; ++i) {
                unsigned char *elem = buffer->memory + buffer->offset + i * s->elem_bytes;
                if (NULL != s->reference) {
                    s->reference->fill(elem, kernel_random(random));
                } else {
                    *elem = (unsigned char) kernel_random(random);
                }
            }
            args->src[b] = buffer->address;
        }
        memcpy(buffer->before, buffer->memory, used);
    }
    for (unsigned d = 0; d < s->ndst; ++d) {
        args->dst[d] = buffers[s->in_place ? d : s->nsrc + d].address;
    }
}

/* One destination holds the reference's results, and around them what was there before. */
static void case_check_destination(const shape_t *s, const buffer_t *buffer)
{
    const kernel_reference_t *reference = s->reference;
    const size_t n = s->count * s->elem_bytes;
    unsigned char expected[16];

    if (0 != memcmp(buffer->memory, buffer->before, buffer->offset)
        || 0
               != memcmp(buffer->memory + buffer->offset + n, buffer->before + buffer->offset + n,
                         used - buffer->offset - n)) {
        case_failed(s, "wrote outside its range", 0);
    }
    for (uint64_t i = 0; i < s->count; ++i) {
        const size_t at = i * s->elem_bytes;
        const unsigned char *got = buffer->memory + buffer->offset + at;
        memcpy(expected, buffers[0].before + buffers[0].offset + at, s->elem_bytes);
        for (uint32_t k = 1; k < s->nsrc; ++k) {
            unsigned char right[16];
            memcpy(right, buffers[k].before + buffers[k].offset + at, s->elem_bytes);
            reference->reduce(expected, right);
            memcpy(expected, right, s->elem_bytes);
        }
        if (NULL == reference ? *got != *expected : !reference->equal(got, expected)) {
            case_failed(s, "wrong result", i);
            return;
        }
        if (NULL != reference && reference->gap_bytes > 0
            && 0
                   != memcmp(got + reference->gap_at, buffer->before + buffer->offset + at + reference->gap_at,
                             reference->gap_bytes)) {
            case_failed(s, "changed the padding", i);
            return;
        }
    }
}

static void case_run(const shape_t *s, uint64_t *random)
{
    const size_t n = s->count * s->elem_bytes;
    gpuhier_kernel_args_t args;
    cudasim_launch_t launch = {.grid = {3, 1, 1}, .block = {32, 1, 1}};
    void *params[1] = {&args};

    case_prepare(s, &args, random);
    launch.window_base = window;
    launch.window_size = arena_bytes;
    launch.alias_offset = (ptrdiff_t) ((uintptr_t) arena - window);
    launch.exact = s->exact;
    launch.traffic = traffic;
    stray = reports = 0;
    s->kernel->run(&launch, params);

    for (unsigned b = 0; b < nbuffers; ++b) {
        const bool is_src = b < s->nsrc;
        const bool is_dst = s->in_place ? b < s->ndst : b >= s->nsrc;
        if (is_dst) {
            case_check_destination(s, &buffers[b]);
        } else if (0 != memcmp(buffers[b].memory, buffers[b].before, used)) {
            case_failed(s, "wrote into a source", b);
        }
        if (buffers[b].read != (is_src ? n : 0) || buffers[b].written != (is_dst ? n : 0)) {
            case_failed(s, "reports other traffic than there is", b);
        }
    }
    if (0 != stray) {
        case_failed(s, "reports traffic outside all buffers", stray);
    }
    ++cases;
}

/* All alignments, in place and not, both forms. */
static void shape_run(shape_t *s, uint64_t *random)
{
    for (s->alignment = 0; s->alignment < ALIGN_KINDS; ++s->alignment) {
        for (unsigned form = 0; form < 4; ++form) {
            s->in_place = form & 1;
            s->exact = form & 2;
            case_run(s, random);
        }
    }
}

/*
 * One buffer at each of the 16 places of a byte while the others are congruent, on a boundary, by one element off or by
 * a byte: the exact form must be right, and move chunks of 16 bytes all the same unless the elements have padding.
 */
static void alignments_run(shape_t *s, uint64_t *random)
{
    const size_t commons[] = {0, s->elem_bytes % 16, 1};
    const size_t gap_bytes = NULL != s->reference ? s->reference->gap_bytes : 0;

    s->alignment = ALIGN_ANY;
    s->exact = true;
    s->ndst = 3;
    s->nsrc = NULL != s->reference ? 3 : 1;
    s->count = 61 * 16 / s->elem_bytes;
    for (s->shift = 0; s->shift < 16; ++s->shift) {
        for (unsigned c = 0; c < sizeof(commons) / sizeof(commons[0]); ++c) {
            s->common = commons[c];
            s->in_place = (s->shift + c) % 2;
            s->odd = s->in_place ? (unsigned) (s->shift / 2) % s->nsrc : (unsigned) s->shift / 2 % (s->nsrc + s->ndst);
            case_run(s, random);
            /* 61 chunks and what is left of one at each end, and of the last. */
            const unsigned long most = (60 + 3 * 16 / s->elem_bytes) * (s->nsrc + s->ndst);
            if (0 == gap_bytes && reports > most) {
                case_failed(s, "moves elements one by one", reports);
            }
        }
    }
}

static void kernel_run(const cudasim_kernel_t *kernel, const kernel_reference_t *reference)
{
    static const uint32_t nsrc[] = {1, 2, 3, 4, 7, 8, 9, 16};
    static const uint64_t count[] = {0, 1, 2, 7, 31, 509};
    uint64_t random = 20260101;
    shape_t s = {.kernel = kernel, .reference = reference, .elem_bytes = NULL != reference ? reference->elem_bytes : 1};

    for (unsigned n = 0; n < sizeof(nsrc) / sizeof(nsrc[0]); ++n) {
        for (unsigned c = 0; c < sizeof(count) / sizeof(count[0]); ++c) {
            /* all-reduce, reduce-scatter, push to several */
            s.ndst = 0 == c % 3 ? nsrc[n] : 1 == c % 3 ? 1 : 3;
            s.nsrc = NULL != reference ? nsrc[n] : 1;
            s.count = count[c];
            shape_run(&s, &random);
        }
    }
    /* Many peers, and more elements than a block of the folded form and one round of the grid. */
    s.nsrc = NULL != reference ? GPUHIER_KERNEL_MAX_PEERS : 1;
    s.ndst = GPUHIER_KERNEL_MAX_PEERS;
    s.count = 61;
    shape_run(&s, &random);
    s.nsrc = NULL != reference ? 6 : 1;
    s.ndst = 2;
    s.count = MAX_BYTES / s.elem_bytes - 3;
    shape_run(&s, &random);
    alignments_run(&s, &random);
}

/* -- gpuhier_moves ------------------------------------------------------------------- */

static void moves_failed(const gpuhier_moves_args_t *args, bool exact, const char *what, unsigned range)
{
    if (++failures <= 20) {
        printf("gpuhier_moves, %u ranges, exact %d: %s (range %u of %llu bytes)\n", args->count, exact, what, range,
               (unsigned long long) args->bytes[range]);
    }
}

/* Range i goes from buffer 2 i to the next one: random lengths, most of them odd, places and numbers of blocks. */
static void moves_case(const cudasim_kernel_t *kernel, unsigned ranges, bool exact, bool congruent, uint64_t *random)
{
    gpuhier_moves_args_t args = {.count = ranges};
    void *params[1] = {&args};
    unsigned long most = 0;
    used = 4096;
    nbuffers = 2 * ranges;
    for (unsigned b = 0; b < nbuffers; ++b) {
        buffer_t *buffer = &buffers[b];
        buffer->memory = arena + b * capacity;
        buffer->before = arena + (MAX_BUFFERS + b) * capacity;
        buffer->offset = GUARD + (congruent ? b / 2 * 5 : (unsigned) kernel_random(random)) % 16;
        buffer->address =
            0 == b % 5 ? (uintptr_t) buffer->memory + buffer->offset : window + b * capacity + buffer->offset;
        buffer->read = buffer->written = 0;
        for (size_t i = 0; i < used; ++i) {
            buffer->before[i] = buffer->memory[i] = (unsigned char) kernel_random(random);
        }
    }
    for (unsigned i = 0; i < ranges; ++i) {
        args.src[i] = buffers[2 * i].address;
        args.dst[i] = buffers[2 * i + 1].address;
        args.bytes[i] = 1 + kernel_random(random) % (0 == i % 3 ? 20 : 3000);
        args.end[i] = (0 == i ? 0 : args.end[i - 1]) + 1 + (uint32_t) (kernel_random(random) % 3);
        most += 2 * (args.bytes[i] / 16 + 48);
    }
    cudasim_launch_t launch = {.grid = {args.end[ranges - 1], 1, 1}, .block = {32, 1, 1}};
    launch.window_base = window;
    launch.window_size = arena_bytes;
    launch.alias_offset = (ptrdiff_t) ((uintptr_t) arena - window);
    launch.exact = exact;
    launch.traffic = traffic;
    stray = reports = 0;
    kernel->run(&launch, params);
    for (unsigned i = 0; i < ranges; ++i) {
        const buffer_t *from = &buffers[2 * i], *to = &buffers[2 * i + 1];
        memcpy(to->before + to->offset, from->before + from->offset, args.bytes[i]);
        if (0 != memcmp(to->before, to->memory, used) || 0 != memcmp(from->before, from->memory, used)) {
            moves_failed(&args, exact, "wrong result, or wrote elsewhere", i);
        }
        if (from->read != args.bytes[i] || 0 != from->written || to->written != args.bytes[i] || 0 != to->read) {
            moves_failed(&args, exact, "reports other traffic than there is", i);
        }
    }
    if (0 != stray || reports > most) {
        moves_failed(&args, exact, "reports traffic outside all buffers, or moves bytes one by one", 0);
    }
    ++cases;
}

static void moves_run(const cudasim_kernel_t *kernel)
{
    static const unsigned ranges[] = {1, 2, 3, 8, 31, 33, GPUHIER_MOVES_MAX};
    uint64_t random = 20260202;
    for (unsigned n = 0; n < sizeof(ranges) / sizeof(ranges[0]); ++n) {
        for (unsigned form = 0; form < 4; ++form) {
            moves_case(kernel, ranges[n], form & 1, form & 2, &random);
        }
    }
}

int main(int argc, char **argv)
{
    const char *library = argc > 1 ? argv[1] : "../cudasim/lib/libgpuhier_twin.so";
    void *handle = dlopen(library, RTLD_NOW);
    const cudasim_twin_table_t *table = NULL != handle ? dlsym(handle, "cudasim_twins") : NULL;

    if (NULL == table) {
        printf("cannot load the twin: %s\n", dlerror());
        return 1;
    }
    capacity = MAX_BYTES + MAX_OFFSET + GUARD;
    capacity += -capacity % 4096;
    arena_bytes = 2 * MAX_BUFFERS * capacity;
    arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *faulting = mmap(NULL, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (MAP_FAILED == arena || MAP_FAILED == faulting) {
        perror("mmap");
        return 1;
    }
    window = (uintptr_t) faulting;

    size_t found = 0;
    if (CUDASIM_TWIN_ABI != table->abi) {
        printf("the twin has ABI %u\n", table->abi);
        return 1;
    }
    for (uint32_t k = 0; k < table->nkernels; ++k) {
        const cudasim_kernel_t *kernel = &table->kernels[k];
        if (0 != kernel->waits) {
            continue; /* one-shot kernels wait for each other: test/gpu/test_oneshot.c */
        }
        if (0 == strncmp(kernel->name, "gpuhier_multicast_", strlen("gpuhier_multicast_"))) {
            continue; /* they need a multicast object: test/gpu/test_multicast.c */
        }
        if (0 == strcmp("gpuhier_moves", kernel->name) && 1 == kernel->nparams
            && sizeof(gpuhier_moves_args_t) == kernel->param_bytes[0]) {
            moves_run(kernel);
            ++found;
            continue;
        }
        const kernel_reference_t *reference = kernel_reference_find(kernel->name);
        if (1 != kernel->nparams || sizeof(gpuhier_kernel_args_t) != kernel->param_bytes[0]
            || (NULL == reference && 0 != strcmp("gpuhier_copy", kernel->name))) {
            printf("%s: wrong parameters, or no reference for it\n", kernel->name);
            ++failures;
            continue;
        }
        found += NULL != reference;
        kernel_run(kernel, reference);
    }
    if (found != kernel_reference_count + 1) {
        printf("the twin has %zu of the %zu kernels\n", found, kernel_reference_count + 1);
        ++failures;
    }
    printf("%u kernels, %lu cases, %lu failures\n", table->nkernels, cases, failures);
    return 0 != failures || 0 == cases;
}
