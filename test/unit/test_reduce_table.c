/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which kernel serves which (operation, type) of MPI: every predefined handle against a table written
 * down here, and against MPI_Reduce_local on random values, where the kernel is its host twin. And how many blocks a
 * launch has.
 * One process (a singleton), no GPU.
 */
#include "../cudasim/cudasim_twin.h"
#include "../gpu/kernel_reference.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <mpi-ext.h>

enum { SOURCES = 5, COUNT = 4000 };

#define INTEGER "sum prod max min land lor lxor band bor bxor"
#define REAL "sum prod max min"
#define COMPLEX "sum prod"
#define PAIR "minloc maxloc"
#define TRUTH "land lor lxor"

/* ctype is what the type is in C on this ABI, in the kernels' words. */
typedef struct type_row {
    MPI_Datatype handle;
    const char *name, *ctype, *ops;
} type_row_t;
#define ROW(handle, ctype, ops)     \
    {                               \
        handle, #handle, ctype, ops \
    }

static const struct op_row {
    MPI_Op handle;
    const char *name;
} op_rows[] = {
    {MPI_SUM, "sum"},       {MPI_PROD, "prod"},     {MPI_MAX, "max"},         {MPI_MIN, "min"},     {MPI_LAND, "land"},
    {MPI_LOR, "lor"},       {MPI_LXOR, "lxor"},     {MPI_BAND, "band"},       {MPI_BOR, "bor"},     {MPI_BXOR, "bxor"},
    {MPI_MINLOC, "minloc"}, {MPI_MAXLOC, "maxloc"}, {MPI_REPLACE, "replace"}, {MPI_NO_OP, "no_op"},
};

static const type_row_t type_rows[] = {
    ROW(MPI_CHAR, "int8", INTEGER),
    ROW(MPI_SIGNED_CHAR, "int8", INTEGER),
    ROW(MPI_UNSIGNED_CHAR, "uint8", INTEGER),
    ROW(MPI_BYTE, "uint8", INTEGER),
    ROW(MPI_SHORT, "int16", INTEGER),
    ROW(MPI_UNSIGNED_SHORT, "uint16", INTEGER),
    ROW(MPI_INT, "int32", INTEGER),
    ROW(MPI_UNSIGNED, "uint32", INTEGER),
    ROW(MPI_LONG, "int64", INTEGER),
    ROW(MPI_UNSIGNED_LONG, "uint64", INTEGER),
    ROW(MPI_LONG_LONG, "int64", INTEGER),
    ROW(MPI_UNSIGNED_LONG_LONG, "uint64", INTEGER),
    ROW(MPI_INT8_T, "int8", INTEGER),
    ROW(MPI_INT16_T, "int16", INTEGER),
    ROW(MPI_INT32_T, "int32", INTEGER),
    ROW(MPI_INT64_T, "int64", INTEGER),
    ROW(MPI_UINT8_T, "uint8", INTEGER),
    ROW(MPI_UINT16_T, "uint16", INTEGER),
    ROW(MPI_UINT32_T, "uint32", INTEGER),
    ROW(MPI_UINT64_T, "uint64", INTEGER),
    ROW(MPI_AINT, "int64", INTEGER),
    ROW(MPI_COUNT, "int64", INTEGER),
    ROW(MPI_OFFSET, "int64", INTEGER),
    ROW(MPI_FLOAT, "float", REAL),
    ROW(MPI_DOUBLE, "double", REAL),
    ROW(MPI_C_BOOL, "uint8", TRUTH),
    ROW(MPI_CXX_BOOL, "uint8", TRUTH),
    ROW(MPI_C_COMPLEX, "float_complex", COMPLEX),
    ROW(MPI_C_FLOAT_COMPLEX, "float_complex", COMPLEX),
    ROW(MPI_C_DOUBLE_COMPLEX, "double_complex", COMPLEX),
    ROW(MPI_CXX_FLOAT_COMPLEX, "float_complex", COMPLEX),
    ROW(MPI_CXX_DOUBLE_COMPLEX, "double_complex", COMPLEX),
    ROW(MPI_FLOAT_INT, "float_int", PAIR),
    ROW(MPI_DOUBLE_INT, "double_int", PAIR),
    ROW(MPI_LONG_INT, "long_int", PAIR),
    ROW(MPI_SHORT_INT, "short_int", PAIR),
    ROW(MPI_2INT, "2int", PAIR),
    ROW(MPI_LONG_DOUBLE, NULL, ""),
    ROW(MPI_LONG_DOUBLE_INT, NULL, ""),
    ROW(MPI_C_LONG_DOUBLE_COMPLEX, NULL, ""),
    ROW(MPI_WCHAR, NULL, ""),
    ROW(MPI_PACKED, NULL, ""),
/* Fortran's, as they are when its default kinds are C's int, float and double; an Open MPI without Fortran has none. */
#if OMPI_HAVE_FORTRAN_INTEGER8 && OMPI_HAVE_FORTRAN_REAL8
    ROW(MPI_INTEGER, "int32", INTEGER),
    ROW(MPI_INTEGER1, "int8", INTEGER),
    ROW(MPI_INTEGER2, "int16", INTEGER),
    ROW(MPI_INTEGER4, "int32", INTEGER),
    ROW(MPI_INTEGER8, "int64", INTEGER),
    ROW(MPI_REAL, "float", REAL),
    ROW(MPI_REAL4, "float", REAL),
    ROW(MPI_REAL8, "double", REAL),
    ROW(MPI_DOUBLE_PRECISION, "double", REAL),
    ROW(MPI_COMPLEX, "float_complex", COMPLEX),
    ROW(MPI_COMPLEX8, "float_complex", COMPLEX),
    ROW(MPI_COMPLEX16, "double_complex", COMPLEX),
    ROW(MPI_DOUBLE_COMPLEX, "double_complex", COMPLEX),
    ROW(MPI_LOGICAL, "int32", TRUTH),
    ROW(MPI_2INTEGER, "2int", PAIR),
    ROW(MPI_2REAL, "2float", PAIR),
    ROW(MPI_2DOUBLE_PRECISION, "2double", PAIR),
#endif
/* Those of an Open MPI whose compiler has _Float16. */
#if defined(OMPI_HAVE_MPI_EXT_SHORTFLOAT) && defined(MPIX_C_FLOAT16)
    ROW(MPIX_C_FLOAT16, "float16", REAL),
    ROW(MPIX_SHORT_FLOAT, "float16", REAL),
    ROW(MPIX_C_SHORT_FLOAT_COMPLEX, NULL, ""),
    ROW(MPIX_CXX_SHORT_FLOAT_COMPLEX, NULL, ""),
#endif
};

#define NAME(op, type) "gpuhier_" #op "_" #type,
static const char *const kernel_names[] = {GPUHIER_KERNEL_LIST(NAME)};

static int failures;
static unsigned long compared, skipped;
static const cudasim_twin_table_t *twins;

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(words, word); NULL != at; at = strstr(at + 1, word)) {
        if ((at == words || ' ' == at[-1]) && ('\0' == at[n] || ' ' == at[n])) {
            return true;
        }
    }
    return false;
}

/* The name of the kernel that must serve op on the row's type; "" for none. */
static void expected_name(const type_row_t *row, const char *op, char *name, size_t size)
{
    const bool is_signed = NULL != row->ctype && 0 == strncmp("int", row->ctype, 3);
    const bool ordered = 0 == strcmp("max", op) || 0 == strcmp("min", op);

    name[0] = '\0';
    if (has_word(row->ops, op)) {
        /* Unsigned kernels serve signed integers, but for max and min. */
        snprintf(name, size, "gpuhier_%s_%s%s", op, is_signed && !ordered ? "u" : "", row->ctype);
    }
}

static void no_traffic(const struct cudasim_launch *launch, uintptr_t address, size_t bytes, int is_write)
{
    (void) launch;
    (void) address;
    (void) bytes;
    (void) is_write;
}

static void twin_reduce(const char *name, unsigned char *const *src, unsigned char *dst, uint64_t count)
{
    gpuhier_kernel_args_t args = {.count = count, .nsrc = SOURCES, .ndst = 1};
    cudasim_launch_t launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .traffic = no_traffic};
    void *params[1] = {&args};

    for (int s = 0; s < SOURCES; ++s) {
        args.src[s] = (uintptr_t) src[s];
    }
    args.dst[0] = (uintptr_t) dst;
    for (uint32_t k = 0; k < twins->nkernels; ++k) {
        if (0 == strcmp(name, twins->kernels[k].name)) {
            twins->kernels[k].run(&launch, params);
        }
    }
}

/* C99's product of complex numbers turns some NaN into infinities; the kernels use the plain formula. */
static bool is_comparable(const char *name, const unsigned char *elem)
{
    double part[2] = {0, 0};
    float small[2];
    if (0 == strcmp("gpuhier_prod_double_complex", name)) {
        memcpy(part, elem, sizeof(part));
    } else if (0 == strcmp("gpuhier_prod_float_complex", name)) {
        memcpy(small, elem, sizeof(small));
        part[0] = small[0];
        part[1] = small[1];
    }
    return isfinite(part[0]) && isfinite(part[1]);
}

/* The twin's reduction of five buffers against MPI_Reduce_local, in rank order. */
static void compare_with_mpi(const type_row_t *row, MPI_Op op, const char *name)
{
    static unsigned char memory[SOURCES + 2][COUNT * 16];
    const kernel_reference_t *reference = kernel_reference_find(name);
    unsigned char *src[SOURCES], *result = memory[SOURCES], *acc = memory[SOURCES + 1];
    uint64_t random = 7;

    if (NULL == reference) {
        printf("%s: no reference\n", name);
        ++failures;
        return;
    }
    const size_t bytes = reference->elem_bytes;
    for (int s = 0; s < SOURCES; ++s) {
        src[s] = memory[s];
        for (int i = 0; i < COUNT; ++i) {
            reference->fill(src[s] + i * bytes, kernel_random(&random));
            if (MPI_C_BOOL == row->handle || MPI_CXX_BOOL == row->handle) {
                src[s][i] &= 1;
            }
        }
    }
    twin_reduce(name, src, result, COUNT);
    memcpy(acc, src[0], COUNT * bytes);
    for (int s = 1; s < SOURCES; ++s) {
        if (MPI_SUCCESS != MPI_Reduce_local(acc, src[s], COUNT, row->handle, op)) {
            ++skipped; /* Open MPI does not define it */
            return;
        }
        memcpy(acc, src[s], COUNT * bytes);
    }
    for (int i = 0; i < COUNT; ++i) {
        if (is_comparable(name, acc + i * bytes) && !reference->equal(result + i * bytes, acc + i * bytes)) {
            printf("%s on %s: element %d differs from MPI_Reduce_local\n", name, row->name, i);
            ++failures;
            return;
        }
    }
    ++compared;
}

static void check_pair(const type_row_t *row, const struct op_row *op)
{
    char name[64];
    size_t elem_bytes = 12345;
    MPI_Aint lb, extent;
    const int index = gpuhier_reduce_find(op->handle, row->handle, &elem_bytes);
    const char *found = index < 0 ? "" : kernel_names[index];

    expected_name(row, op->name, name, sizeof(name));
    if (0 != strcmp(name, found)) {
        printf("%s on %s: expected '%s', found '%s'\n", op->name, row->name, name, found);
        ++failures;
        return;
    }
    if (index < 0) {
        failures += 12345 != elem_bytes;
        return;
    }
    MPI_Type_get_extent(row->handle, &lb, &extent);
    if (elem_bytes != (size_t) extent || index >= GPUHIER_REDUCE_COUNT) {
        printf("%s on %s: wrong size or number\n", op->name, row->name);
        ++failures;
    }
    /* Open MPI orders MPI_OFFSET as if it were unsigned. */
    if (MPI_OFFSET != row->handle) {
        compare_with_mpi(row, op->handle, found);
    }
}

static void user_op(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void) in;
    (void) out;
    (void) count;
    (void) type;
}

/* What only looks like a predefined operation or type has no kernel. */
static void check_derived(void)
{
    MPI_Op op;
    MPI_Datatype twice, same;

    MPI_Op_create(user_op, 1, &op);
    MPI_Type_contiguous(2, MPI_DOUBLE, &twice);
    MPI_Type_commit(&twice);
    MPI_Type_dup(MPI_DOUBLE, &same);
    if (gpuhier_reduce_find(op, MPI_DOUBLE, NULL) >= 0 || gpuhier_reduce_find(MPI_SUM, twice, NULL) >= 0
        || gpuhier_reduce_find(MPI_SUM, same, NULL) >= 0 || gpuhier_reduce_find(MPI_OP_NULL, MPI_DOUBLE, NULL) >= 0
        || gpuhier_reduce_find(MPI_SUM, MPI_DATATYPE_NULL, NULL) >= 0) {
        printf("a derived operation or type was given a kernel\n");
        ++failures;
    }
    MPI_Type_free(&same);
    MPI_Type_free(&twice);
    MPI_Op_free(&op);
}

/* -- the launches, on a driver that only looks at them ------------------------------ */

static unsigned launched, launches; /* blocks of the last launch; how many there were */
static gpuhier_moves_args_t moved;  /* its argument, if it was gpuhier_moves */

static CUresult fake_device(CUdevice *device_p)
{
    *device_p = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *value_p, CUdevice_attribute name, CUdevice device)
{
    (void) name;
    (void) device;
    *value_p = 132; /* multiprocessors, of an H100 */
    return CUDA_SUCCESS;
}

static CUresult fake_load(CUmodule *module_p, const void *image)
{
    (void) image;
    *module_p = (CUmodule) (uintptr_t) 1;
    return CUDA_SUCCESS;
}

static CUresult fake_find(CUfunction *function_p, CUmodule module, const char *name)
{
    (void) module;
    *function_p = (CUfunction) (uintptr_t) (0 == strcmp("gpuhier_moves", name) ? 2 : 1);
    return CUDA_SUCCESS;
}

static CUresult fake_occupancy(int *blocks_p, CUfunction function, int threads, size_t shared_bytes)
{
    (void) function;
    (void) threads;
    (void) shared_bytes;
    *blocks_p = 3;
    return CUDA_SUCCESS;
}

static CUresult fake_launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                            unsigned tz, unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
    (void) shared_bytes;
    (void) stream;
    (void) extra;
    ++launches;
    if ((CUfunction) (uintptr_t) 2 == function) {
        memcpy(&moved, params[0], sizeof(moved));
    }
    launched = 256 == threads && 1 == y * z * ty * tz ? x : 0;
    return CUDA_SUCCESS;
}

/* Launches a sum of so many floats from two sources, the second so many bytes further. */
static void check_blocks(gpuhier_reduce_t *reduce, uint64_t count, uint64_t apart, unsigned wanted)
{
    const gpuhier_kernel_args_t args = {
        .src = {0x10000, 0x1000000 + apart}, .dst = {0x10000}, .nsrc = 2, .ndst = 1, .count = count};
    launched = 0;
    if (MPI_SUCCESS != gpuhier_reduce_launch(reduce, GPUHIER_REDUCE_sum_float, &args, NULL) || wanted != launched) {
        printf("%llu floats: %u blocks, not %u\n", (unsigned long long) count, launched, wanted);
        ++failures;
    }
}

/* Moves `n` ranges, of which range i has bytes[i], between places that are `apart` bytes from being congruent. wanted:
 * the blocks of each range. */
static void check_moves(gpuhier_reduce_t *reduce, unsigned n, const uint64_t *bytes, uint64_t apart,
                        const unsigned *wanted)
{
    gpuhier_moves_args_t args = {.count = 0};
    int rc = MPI_SUCCESS;
    launches = 0;
    for (unsigned i = 0; i < n && MPI_SUCCESS == rc; ++i) {
        rc = gpuhier_reduce_move(reduce, &args, 0x100000000 * (i + 1) + apart, 0x10000 * (uint64_t) (i + 1), bytes[i],
                                 NULL);
    }
    rc = MPI_SUCCESS == rc ? gpuhier_reduce_moves(reduce, &args, NULL) : rc;
    unsigned end = 0, k = 0;
    bool right = MPI_SUCCESS == rc && 1 == launches && 0 == args.count;
    for (unsigned i = 0; i < n; ++i) {
        if (bytes[i] > 0) {
            end += wanted[i];
            right = right && end == moved.end[k] && bytes[i] == moved.bytes[k]
                    && 0x10000 * (uint64_t) (i + 1) == moved.src[k];
            ++k;
        }
    }
    if (!right || k != moved.count || end != launched) {
        printf("%u ranges of %llu bytes and more: %u launches, %u blocks, not %u\n", n, (unsigned long long) bytes[0],
               launches, launched, end);
        ++failures;
    }
}

/* Each range has a block, and they share the others by their bytes; ranges without bytes, and those that are there, are
 * left out. A list that is longer than an argument takes several launches. */
static void check_shares(gpuhier_reduce_t *reduce)
{
    enum { MANY = 2 * GPUHIER_MOVES_MAX + 1 };
    static const uint64_t equal[] = {1 << 23, 1 << 23, 1 << 23, 1 << 23, 1 << 23, 1 << 23, 1 << 23, 1 << 23};
    static const uint64_t few[] = {8, 0, 5000, 0, 1}, unlike[] = {30 << 20, 3 << 20, 1, 0};
    check_moves(reduce, 8, equal, 0, (const unsigned[]){5, 5, 5, 5, 5, 5, 5, 5});
    check_moves(reduce, 8, equal, 8, (const unsigned[]){50, 50, 50, 50, 50, 50, 50, 50});
    check_moves(reduce, 5, few, 0, (const unsigned[]){1, 0, 2, 0, 1});
    check_moves(reduce, 4, unlike, 0, (const unsigned[]){30, 3, 1, 0});
    gpuhier_moves_args_t args = {.count = 0};
    launches = 0;
    for (unsigned i = 0; i < MANY; ++i) {
        (void) gpuhier_reduce_move(reduce, &args, 0x1000 * (uint64_t) (i + 1), 0x900000, 16, NULL);
        (void) gpuhier_reduce_move(reduce, &args, 0x1000, 0x1000, 16, NULL);
    }
    const unsigned before = launches;
    if (MPI_SUCCESS != gpuhier_reduce_moves(reduce, &args, NULL) || 2 != before || 3 != launches || 1 != moved.count
        || MPI_SUCCESS != gpuhier_reduce_moves(reduce, &args, NULL) || 3 != launches) {
        printf("%d ranges: %u launches, the last of %u\n", MANY, launches, moved.count);
        ++failures;
    }
}

/* A launch takes a quarter of the multiprocessors at most, unless buffers are misaligned. */
static void check_launches(void)
{
    gpuhier_reduce_t reduce;
    gpuhier_cu.cuCtxGetDevice = fake_device;
    gpuhier_cu.cuDeviceGetAttribute = fake_attribute;
    gpuhier_cu.cuModuleLoadData = fake_load;
    gpuhier_cu.cuModuleGetFunction = fake_find;
    gpuhier_cu.cuOccupancyMaxActiveBlocksPerMultiprocessor = fake_occupancy;
    gpuhier_cu.cuLaunchKernel = fake_launch;
    if (MPI_SUCCESS != gpuhier_reduce_open(&reduce)) {
        printf("the kernels cannot be opened\n");
        ++failures;
        return;
    }
    check_blocks(&reduce, 1, 0, 1);
    check_blocks(&reduce, 2048, 0, 2);
    check_blocks(&reduce, 1 << 24, 0, 132 / 4);
    check_blocks(&reduce, 1 << 24, 4, 132 * 3);
    check_shares(&reduce);
}

int main(int argc, char **argv)
{
    void *handle = dlopen(argc > 1 ? argv[1] : "../cudasim/lib/libgpuhier_twin.so", RTLD_NOW);

    twins = NULL != handle ? dlsym(handle, "cudasim_twins") : NULL;
    if (NULL == twins) {
        printf("cannot load the twin: %s\n", dlerror());
        return 1;
    }
    /* Its vector code saturates small integers and takes NaN differently; op/base is the definition. */
    setenv("OMPI_MCA_op", "^avx", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (size_t t = 0; t < sizeof(type_rows) / sizeof(type_rows[0]); ++t) {
        for (size_t o = 0; o < sizeof(op_rows) / sizeof(op_rows[0]); ++o) {
            check_pair(&type_rows[t], &op_rows[o]);
        }
    }
    check_derived();
    check_launches();
    MPI_Finalize();
    printf("%lu (operation, type) pairs equal MPI_Reduce_local, %lu are not defined there, %d failures\n", compared,
           skipped, failures);
    return 0 != failures || compared < 200;
}
