/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table from MPI operation and type to kernel, the launches, and the same for the kernels that ask an NVSwitch
 * to reduce. Does not own the kernels (kernels/), streams, or the decision whether a call runs on the GPU (coll).
 *
 * A look-up takes two steps. Open MPI's own map turns a type handle into one of its reduction types. That type, with
 * its size for Fortran's types, gives a C type. Then (operation, C type) is looked up in GPUHIER_KERNEL_LIST.
 *
 * Called by coll (find), device (open, close), the engine (launch, copy, push, store), and the set-up of a switch.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "mpi.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/mca/op/op.h"

#include "base/coll_gpuhier_help.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "gpu/kernels/gpuhier_kernel_ops.h"
#include "opal/util/proc.h"

/* From ompi/op/op.h, which includes a header that Open MPI 4.1 does not install: dtype->id -> OMPI_OP_BASE_TYPE_*. */
OMPI_DECLSPEC extern int ompi_op_ddt_map[];

/* In kernels/gpuhier_fatbin.S. */
extern const unsigned char gpuhier_fatbin[], gpuhier_multicast_fatbin[];

enum { INDEX_COPY = GPUHIER_REDUCE_COUNT, INDEX_MOVES };

#define KERNEL_OPS(X) \
    X(sum, SUM)       \
    X(prod, PROD)     \
    X(max, MAX)       \
    X(min, MIN)       \
    X(land, LAND)     \
    X(lor, LOR)       \
    X(lxor, LXOR)     \
    X(band, BAND)     \
    X(bor, BOR)       \
    X(bxor, BXOR)     \
    X(minloc, MINLOC) \
    X(maxloc, MAXLOC)

#define TYPE_NUMBER(unused, kind, type, ...) TYPE_##type,
typedef enum kernel_type { TYPE_none, GPUHIER_TYPES(TYPE_NUMBER, ) TYPE_COUNT } kernel_type_t;

#define OP_NUMBER(op, name) OP_##op,
typedef enum kernel_op { OP_none, KERNEL_OPS(OP_NUMBER) OP_COUNT } kernel_op_t;

typedef enum kind { KIND_none, KIND_signed, KIND_unsigned, KIND_real, KIND_complex, KIND_pair, KIND_half } kind_t;

static const struct {
    kind_t kind;
    size_t elem_bytes, first_bytes, second_at, second_bytes; /* as in gpuhier_kernel_ops.h */
} types[TYPE_COUNT] = {
#define TYPE(unused, kind, type, ...) \
    [TYPE_##type] = {KIND_##kind, sizeof(elem_##type), elem_first_##type, elem_at_##type, elem_second_##type},
    GPUHIER_TYPES(TYPE, )
#undef TYPE
};

typedef struct kernel {
    const char *name, *oneshot;
    size_t elem_bytes;
    kernel_type_t type;
} kernel_t;

static const kernel_t kernels[] = {
#define KERNEL(op, type)      \
    [GPUHIER_REDUCE_##op##_## \
        type] = {"gpuhier_" #op "_" #type, "gpuhier_oneshot_" #op "_" #type, sizeof(elem_##type), TYPE_##type},
    GPUHIER_KERNEL_LIST(KERNEL)
#undef KERNEL
        [INDEX_COPY] = {"gpuhier_copy", "gpuhier_oneshot_move", 1, TYPE_none},
    [INDEX_MOVES] = {"gpuhier_moves", NULL, 1, TYPE_none},
};

/* 1 + the index; 0: there is no kernel. */
static const short index_plus_1[OP_COUNT][TYPE_COUNT] = {
#define INDEX(op, type) [OP_##op][TYPE_##type] = GPUHIER_REDUCE_##op##_##type + 1,
    GPUHIER_KERNEL_LIST(INDEX)
#undef INDEX
};

static kernel_type_t type_of_kind(kind_t kind, size_t bytes)
{
    for (int type = TYPE_none; type < TYPE_COUNT; ++type) {
        if (kind == types[type].kind && bytes == types[type].elem_bytes) {
            return (kernel_type_t) type;
        }
    }
    return TYPE_none;
}

/*
 * The C type of one of Open MPI's reduction types, which has `bytes` bytes. Fortran's types are treated as Open MPI's
 * own functions treat them; LOGICAL is an integer that is true when it is not 0.
 */
static kernel_type_t type_of_base(int base, size_t bytes)
{
    switch (base) {
    case OMPI_OP_BASE_TYPE_INT8_T:
    case OMPI_OP_BASE_TYPE_INT16_T:
    case OMPI_OP_BASE_TYPE_INT32_T:
    case OMPI_OP_BASE_TYPE_INT64_T:
    case OMPI_OP_BASE_TYPE_LONG:
    case OMPI_OP_BASE_TYPE_INTEGER:
    case OMPI_OP_BASE_TYPE_INTEGER1:
    case OMPI_OP_BASE_TYPE_INTEGER2:
    case OMPI_OP_BASE_TYPE_INTEGER4:
    case OMPI_OP_BASE_TYPE_INTEGER8:
    case OMPI_OP_BASE_TYPE_LOGICAL:
        return type_of_kind(KIND_signed, bytes);
    case OMPI_OP_BASE_TYPE_UINT8_T:
    case OMPI_OP_BASE_TYPE_UINT16_T:
    case OMPI_OP_BASE_TYPE_UINT32_T:
    case OMPI_OP_BASE_TYPE_UINT64_T:
    case OMPI_OP_BASE_TYPE_UNSIGNED_LONG:
    case OMPI_OP_BASE_TYPE_BOOL:
    case OMPI_OP_BASE_TYPE_BYTE:
        return type_of_kind(KIND_unsigned, bytes);
    case OMPI_OP_BASE_TYPE_FLOAT:
    case OMPI_OP_BASE_TYPE_DOUBLE:
    case OMPI_OP_BASE_TYPE_REAL:
    case OMPI_OP_BASE_TYPE_REAL4:
    case OMPI_OP_BASE_TYPE_REAL8:
    case OMPI_OP_BASE_TYPE_DOUBLE_PRECISION:
        return type_of_kind(KIND_real, bytes);
#ifdef HAVE_OPAL_SHORT_FLOAT_T
    case OMPI_OP_BASE_TYPE_SHORT_FLOAT: /* Fortran's REAL*2, too. Not a bfloat16 in its place, which has no 1025. */
        return 1025 == (opal_short_float_t) 1025 ? type_of_kind(KIND_half, bytes) : TYPE_none;
#endif
    case OMPI_OP_BASE_TYPE_C_FLOAT_COMPLEX:
    case OMPI_OP_BASE_TYPE_C_DOUBLE_COMPLEX:
        return type_of_kind(KIND_complex, bytes);
    case OMPI_OP_BASE_TYPE_FLOAT_INT:
        return TYPE_float_int;
    case OMPI_OP_BASE_TYPE_DOUBLE_INT:
        return TYPE_double_int;
    case OMPI_OP_BASE_TYPE_LONG_INT:
        return TYPE_long_int;
    case OMPI_OP_BASE_TYPE_SHORT_INT:
        return TYPE_short_int;
    case OMPI_OP_BASE_TYPE_2INT:
    case OMPI_OP_BASE_TYPE_2INTEGER:
        return TYPE_2int;
    case OMPI_OP_BASE_TYPE_2REAL:
        return TYPE_2float;
    case OMPI_OP_BASE_TYPE_2DOUBLE_PRECISION:
        return TYPE_2double;
    default:
        return TYPE_none;
    }
}

/* OP_none for an operation of the program, whatever it computes. */
static kernel_op_t op_of_handle(const struct ompi_op_t *op)
{
#define IF_OP(name_here, name_mpi) \
    if (MPI_##name_mpi == op) {    \
        return OP_##name_here;     \
    }
    KERNEL_OPS(IF_OP)
#undef IF_OP
    return OP_none;
}

/* MPI defines only the logical operations on truth values. */
static bool is_defined(kernel_op_t op, int base)
{
    return (OMPI_OP_BASE_TYPE_LOGICAL != base && OMPI_OP_BASE_TYPE_BOOL != base) || OP_land == op || OP_lor == op
           || OP_lxor == op;
}

int gpuhier_reduce_find(const struct ompi_op_t *op, const struct ompi_datatype_t *dtype, size_t *elem_bytes_p)
{
    const kernel_op_t kernel_op = op_of_handle(op);

    if (!ompi_datatype_is_predefined(dtype) || dtype->id < 0 || dtype->id >= OMPI_DATATYPE_MAX_PREDEFINED) {
        return -1;
    }
    const int base = ompi_op_ddt_map[dtype->id];
    if (base < 0 || !is_defined(kernel_op, base)) {
        return -1;
    }
    kernel_type_t type = type_of_base(base, dtype->super.size);
    if (OMPI_DATATYPE_MPI_OFFSET == dtype->id) {
        /* Open MPI reduces it as unsigned, which is wrong for MAX and MIN of negative offsets. */
        type = type_of_kind(KIND_signed, dtype->super.size);
    }
    if (0 == index_plus_1[kernel_op][type] && KIND_signed == types[type].kind) {
        type = type_of_kind(KIND_unsigned, types[type].elem_bytes); /* the same bits, except for max and min */
    }
    /* A Fortran compiler's sizes may differ from C's. The extents differ then. */
    if (0 == index_plus_1[kernel_op][type] || (size_t) (dtype->super.ub - dtype->super.lb) != types[type].elem_bytes) {
        return -1;
    }
    if (NULL != elem_bytes_p) {
        *elem_bytes_p = types[type].elem_bytes;
    }
    return index_plus_1[kernel_op][type] - 1;
}

static bool is_index(int index)
{
    return index >= 0 && index < GPUHIER_REDUCE_COUNT;
}

const bool gpuhier_reduce_gaps[GPUHIER_REDUCE_COUNT] = {
#define GAPS(op, type) \
    [GPUHIER_REDUCE_##op##_##type] = sizeof(elem_##type) != (size_t) elem_first_##type + (size_t) elem_second_##type,
    GPUHIER_KERNEL_LIST(GAPS)
#undef GAPS
};

size_t gpuhier_reduce_span(int index, uint64_t count)
{
    const kernel_type_t type = kernels[index].type;
    return (count - 1) * types[type].elem_bytes + types[type].second_at + types[type].second_bytes;
}

/*
 * A block keeps 32 KiB in flight (8 loads of 16 bytes by 256 threads). What a GPU's links bring in during the
 * latency of a load is 0.5 MiB on an H100 (450 GB/s, 1.2 us) and 0.4 MiB on an A100, so a quarter of the
 * multiprocessors with a block each has twice that or more. The others are the program's. A part of a GPU (MIG) gets
 * at least BLOCKS_MIN.
 *
 * Of reductions in a switch a block keeps at least 8 KiB of results in flight (8 loads of 4 bytes), and each byte of a
 * result stands for a byte of every copy. With these blocks 0.26 MiB are in flight on an H100. A link brings in results
 * at only an eighth to a quarter of its rate, since its other bytes are stores.
 */
#define BLOCKS_MIN 8u
static unsigned enough_blocks(int multiprocessors)
{
    const unsigned quarter = (unsigned) multiprocessors / 4;
    return quarter > BLOCKS_MIN ? quarter : BLOCKS_MIN;
}

static CUresult multiprocessors_count(int *count_p)
{
    CUdevice device;
    const CUresult result = gpuhier_cu.cuCtxGetDevice(&device);
    return CUDA_SUCCESS != result
               ? result
               : gpuhier_cu.cuDeviceGetAttribute(count_p, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
}

static void module_unload(CUmodule *module, const char *what)
{
    if (NULL != *module) {
        gpuhier_cuda_freed(gpuhier_cu.cuModuleUnload(*module), what);
        *module = NULL;
    }
}

/* Finds and loads all kernels. */
static CUresult resolve(gpuhier_reduce_t *r)
{
    int multiprocessors = 0, blocks;
    CUresult result = multiprocessors_count(&multiprocessors);

    multiprocessors = multiprocessors > 0 ? multiprocessors : 1;
    for (int i = 0; i <= INDEX_MOVES && CUDA_SUCCESS == result; ++i) {
        result = gpuhier_cuda_kernel(r->module, kernels[i].name, GPUHIER_KERNEL_BLOCK, &r->function[i], &blocks);
        r->all_blocks[i] = (unsigned) blocks * (unsigned) multiprocessors;
        if (CUDA_SUCCESS == result && NULL != kernels[i].oneshot) {
            result = gpuhier_cuda_kernel(r->module, kernels[i].oneshot, GPUHIER_KERNEL_BLOCK, &r->oneshot[i], &blocks);
        }
    }
    r->enough_blocks = enough_blocks(multiprocessors);
    return result;
}

/* Says once that this driver does not take kernels of this build, if the result means that. */
static void misfit_tell(CUresult result)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    int driver = 0;
    if ((CUDA_ERROR_INVALID_IMAGE == result || CUDA_ERROR_NO_BINARY_FOR_GPU == result
         || CUDA_ERROR_UNSUPPORTED_PTX_VERSION == result)
        && !atomic_flag_test_and_set(&told)) {
        (void) gpuhier_cu.cuDriverGetVersion(&driver);
        gpuhier_help("no kernels", opal_process_info.nodename, gpuhier_cuda_name(result), driver / 1000,
                     driver % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    }
}

int gpuhier_reduce_open(gpuhier_reduce_t *r)
{
    CUresult result = gpuhier_cu.cuModuleLoadData(&r->module, gpuhier_fatbin);
    r->module = CUDA_SUCCESS == result ? r->module : NULL;
    result = CUDA_SUCCESS == result ? resolve(r) : result;
    misfit_tell(result);
    const int rc = gpuhier_cuda_error(result, "loading the kernels");
    if (OMPI_SUCCESS != rc) {
        gpuhier_reduce_close(r);
    }
    return rc;
}

void gpuhier_reduce_close(gpuhier_reduce_t *r)
{
    module_unload(&r->module, "cuModuleUnload of the kernels");
}

/* Are some buffers not congruent modulo 16? Then a thread has fewer bytes in flight. */
static bool is_misaligned(const gpuhier_kernel_args_t *args)
{
    uint64_t differ = 0;
    for (uint32_t s = 1; s < args->nsrc; ++s) {
        differ |= args->src[s] ^ args->src[0];
    }
    for (uint32_t d = 0; d < args->ndst; ++d) {
        differ |= args->dst[d] ^ args->src[0];
    }
    return 0 != differ % 16;
}

_Static_assert(16 == GPUHIER_ONESHOT_UNIT && 16 == GPUHIER_MULTICAST_UNIT, "a thread of any kernel moves 16 bytes");

#define BLOCK_BYTES (GPUHIER_KERNEL_BLOCK * 16)

/* Starts one thread for each 16 bytes, in `most` blocks at most; threads loop over the rest. */
static int grid_start(CUfunction function, const char *name, uint64_t bytes, unsigned most, const void *args,
                      CUstream stream)
{
    void *params[1] = {(void *) args};
    const uint64_t blocks = bytes / BLOCK_BYTES + (0 != bytes % BLOCK_BYTES);
    return gpuhier_cuda_error(gpuhier_cu.cuLaunchKernel(function, blocks < most ? (unsigned) blocks : most, 1, 1,
                                                        GPUHIER_KERNEL_BLOCK, 1, 1, 0, stream, params, NULL),
                              name);
}

/* Starts at most as many blocks as the links need. */
int gpuhier_reduce_launch(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream)
{
    if ((!is_index(index) && INDEX_COPY != index) || args->nsrc < 1 || args->nsrc > GPUHIER_KERNEL_MAX_PEERS
        || args->ndst < 1 || args->ndst > GPUHIER_KERNEL_MAX_PEERS) {
        return OMPI_ERR_BAD_PARAM;
    }
    if (0 == args->count) {
        return OMPI_SUCCESS;
    }
    const bool all = r->enough_blocks > r->all_blocks[index] || is_misaligned(args);
    return grid_start(r->function[index], kernels[index].name, args->count * kernels[index].elem_bytes,
                      all ? r->all_blocks[index] : r->enough_blocks, args, stream);
}

int gpuhier_reduce_oneshot(gpuhier_reduce_t *r, int index, const gpuhier_oneshot_args_t *args, CUstream stream)
{
    if ((!is_index(index) && INDEX_COPY != index) || args->nranks < 2 || args->nranks > GPUHIER_KERNEL_MAX_PEERS
        || 0 == args->count) {
        return OMPI_ERR_BAD_PARAM;
    }
    const uint64_t warp = GPUHIER_ONESHOT_PLACES * GPUHIER_ONESHOT_UNIT; /* bytes of a pair */
    const uint64_t bytes = INDEX_COPY != index ? args->count * kernels[index].elem_bytes
                                               : (args->count + warp - 1) / warp * warp * args->nranks;
    return grid_start(r->oneshot[index], kernels[index].oneshot, bytes, GPUHIER_ONESHOT_BLOCKS, args, stream);
}

int gpuhier_reduce_push(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream)
{
    gpuhier_kernel_args_t push = *args;
    push.nsrc = 1;
    if (gpuhier_reduce_has_gaps(index)) {
        return gpuhier_reduce_launch(r, index, &push, stream);
    }
    push.count *= kernels[index].elem_bytes;
    return gpuhier_reduce_launch(r, INDEX_COPY, &push, stream);
}

int gpuhier_reduce_move(gpuhier_reduce_t *r, gpuhier_moves_args_t *args, CUdeviceptr to, CUdeviceptr from,
                        uint64_t bytes, CUstream stream)
{
    if (0 == bytes || to == from) {
        return OMPI_SUCCESS;
    }
    args->src[args->count] = from;
    args->dst[args->count] = to;
    args->bytes[args->count] = bytes;
    return GPUHIER_MOVES_MAX == ++args->count ? gpuhier_reduce_moves(r, args, stream) : OMPI_SUCCESS;
}

static_assert(0 == (GPUHIER_MOVES_MAX & (GPUHIER_MOVES_MAX - 1)), "moves_thread() halves the list");
int gpuhier_reduce_moves(gpuhier_reduce_t *r, gpuhier_moves_args_t *args, CUstream stream)
{
    const uint32_t count = args->count;
    const unsigned all = r->all_blocks[INDEX_MOVES];
    uint64_t bytes = 0, blocks = 0;
    for (uint32_t i = 0; i < count; ++i) {
        bytes += args->bytes[i];
    }
    for (uint32_t i = 0; i < count; ++i) {
        const bool is_wide = 0 == (args->src[i] ^ args->dst[i]) % 16;
        const unsigned most = is_wide && r->enough_blocks < all ? r->enough_blocks : all;
        const uint64_t share = 1 + (uint64_t) ((double) args->bytes[i] / (double) bytes * (most - 1));
        const uint64_t needed = (args->bytes[i] - 1) / BLOCK_BYTES + 1;
        blocks += share < needed ? share : needed;
        args->end[i] = (uint32_t) blocks;
    }
    const int rc = 0 == count ? OMPI_SUCCESS
                              : grid_start(r->function[INDEX_MOVES], "gpuhier_moves", blocks * BLOCK_BYTES,
                                           (unsigned) blocks, args, stream);
    args->count = 0;
    return rc;
}

int gpuhier_reduce_copy(gpuhier_reduce_t *r, CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream)
{
    gpuhier_moves_args_t args;
    args.count = 0;
    (void) gpuhier_reduce_move(r, &args, to, from, bytes, stream);
    return gpuhier_reduce_moves(r, &args, stream);
}

/* Copies one field, or two side by side, of each element. */
static int fields_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, size_t elem_bytes, uint64_t count,
                       CUstream stream)
{
    const CUDA_MEMCPY2D shape = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = from,
        .srcPitch = elem_bytes,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = to,
        .dstPitch = elem_bytes,
        .WidthInBytes = bytes,
        .Height = count,
    };
    return GPUHIER_CU(cuMemcpy2DAsync, &shape, stream);
}

int gpuhier_reduce_store(int index, CUdeviceptr to, CUdeviceptr from, uint64_t count, CUstream stream)
{
    const kernel_type_t type = kernels[index].type;
    const size_t elem_bytes = types[type].elem_bytes, first = types[type].first_bytes, at = types[type].second_at;
    const size_t second = types[type].second_bytes;
    if (!gpuhier_reduce_has_gaps(index)) {
        return GPUHIER_CU(cuMemcpyAsync, to, from, count * elem_bytes, stream);
    }
    if (at == first) {
        return fields_copy(to, from, first + second, elem_bytes, count, stream);
    }
    const int rc = fields_copy(to, from, first, elem_bytes, count, stream);
    return OMPI_SUCCESS != rc ? rc : fields_copy(to + at, from + at, second, elem_bytes, count, stream);
}

/* -- reductions in an NVSwitch --------------------------------------------------------- */

enum { INDEX_STORE = GPUHIER_MULTICAST_COUNT };

static const char *const multicast_names[GPUHIER_MULTICAST_COUNT + 1] = {
#define NAME(name, type, op) [GPUHIER_MULTICAST_##name] = "gpuhier_multicast_" #name,
    GPUHIER_MULTICAST_LIST(NAME)
#undef NAME
        [INDEX_STORE] = "gpuhier_multicast_store",
};

/* 1 + the index here; 0: the switch cannot do it. */
static const unsigned char served_plus_1[GPUHIER_REDUCE_COUNT] = {
#define SERVES(name, type, op) [GPUHIER_REDUCE_##op##_##type] = GPUHIER_MULTICAST_##name + 1,
    GPUHIER_MULTICAST_LIST(SERVES) GPUHIER_MULTICAST_BITWISE(SERVES)
#undef SERVES
};

bool gpuhier_multicast_can(int index, bool any_order)
{
    const int served = is_index(index) ? served_plus_1[index] - 1 : -1;
    return served >= 0 && (any_order || (GPUHIER_MULTICAST_add_f32 != served && GPUHIER_MULTICAST_add_f64 != served));
}

int gpuhier_multicast_kernels_open(gpuhier_multicast_kernels_t *kernels)
{
    int multiprocessors = 0, blocks;
    if (NULL != kernels->module) {
        return OMPI_SUCCESS;
    }
    CUresult result = gpuhier_cu.cuModuleLoadData(&kernels->module, gpuhier_multicast_fatbin);
    kernels->module = CUDA_SUCCESS == result ? kernels->module : NULL;
    result = CUDA_SUCCESS == result ? multiprocessors_count(&multiprocessors) : result;
    kernels->most_blocks = enough_blocks(multiprocessors);
    for (int i = 0; i <= INDEX_STORE && CUDA_SUCCESS == result; ++i) {
        result = gpuhier_cuda_kernel(kernels->module, multicast_names[i], GPUHIER_KERNEL_BLOCK, &kernels->function[i],
                                     &blocks);
    }
    if (CUDA_SUCCESS != result) {
        const int rc = gpuhier_cuda_error(result, "loading the kernels for multicast addresses");
        gpuhier_multicast_kernels_close(kernels);
        return CUDA_ERROR_NOT_FOUND == result ? OMPI_ERR_NOT_SUPPORTED : rc;
    }
    return OMPI_SUCCESS;
}

void gpuhier_multicast_kernels_close(gpuhier_multicast_kernels_t *kernels)
{
    module_unload(&kernels->module, "cuModuleUnload of the kernels for multicast addresses");
}

int gpuhier_multicast_launch(const gpuhier_multicast_kernels_t *kernels, int index,
                             const gpuhier_multicast_args_t *args, CUstream stream)
{
    if (INDEX_COPY != index && !gpuhier_multicast_can(index, true)) {
        return OMPI_ERR_BAD_PARAM;
    }
    const int i = INDEX_COPY == index ? INDEX_STORE : served_plus_1[index] - 1;
    return 0 == args->bytes
               ? OMPI_SUCCESS
               : grid_start(kernels->function[i], multicast_names[i], args->bytes, kernels->most_blocks, args, stream);
}
