/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What differs between the Open MPI releases that this source serves: 4.1 (coll 2.0.0), 5.0 (coll 2.4.0) and 6.0
 * (coll 3.0.0). All other code is written against the names and types given here.
 *
 * This folder, base, owns what every layer needs: the parameters (params), the counters (counters), the engine's lock
 * (lock), the clock (clock), memory that processes share (sync), objects that wait until UCX or a GPU lets go
 * of them (kept), the end of the process's life in MPI (end), the collectives that gpuhier replaced (saved), why calls
 * are left to them (reasons), what a job prints and writes about its calls (report, trace),
 * and limits. It uses Open MPI and libc, and no other folder. All folders use it.
 *
 * Parameters are constant once the component is registered, except `enable`. Any thread may raise counters. kept is
 * used under the engine's lock; end, report and trace have locks of their own.
 */
#ifndef GPUHIER_COMPAT_H
#define GPUHIER_COMPAT_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"

/* An entry of a communicator's list of modules: mca_coll_base_avail_coll_t, which is the same in 4.1.0 to 6.0. Its
 * header includes one that Open MPI 4.1 does not install. */
typedef struct gpuhier_avail {
    opal_list_item_t super;
    int ac_priority;
    mca_coll_base_module_t *ac_module;
    const char *ac_component_name;
} gpuhier_avail_t;

/* The version macro that opens a coll component, and the type of element counts in its functions. */
#if defined(MCA_COLL_BASE_VERSION_3_0_0)
#    define GPUHIER_COLL_VERSION MCA_COLL_BASE_VERSION_3_0_0
#    define GPUHIER_COLL_INSTALLS_ITSELF 1
typedef size_t gpuhier_count_t;
#elif defined(MCA_COLL_BASE_VERSION_2_4_0)
#    define GPUHIER_COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#    define GPUHIER_COLL_INSTALLS_ITSELF 0
typedef int gpuhier_count_t;
#elif defined(MCA_COLL_BASE_VERSION_2_0_0)
#    define GPUHIER_COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#    define GPUHIER_COLL_INSTALLS_ITSELF 0
typedef int gpuhier_count_t;
#else
#    error "this Open MPI's coll interface is not known: 4.1, 5.0 and 6.0 are"
#endif

/* The arrays of counts and displacements in these functions. Displacements of MPI_Neighbor_alltoallw are bytes, of type
 * MPI_Aint. */
#if GPUHIER_COLL_INSTALLS_ITSELF
typedef ompi_count_array_t gpuhier_counts_t;
typedef ompi_disp_array_t gpuhier_disps_t;
typedef ompi_disp_array_t gpuhier_aints_t;
#    define GPUHIER_COUNTS_AT(counts, i) ompi_count_array_get(counts, i)
#    define GPUHIER_DISPS_AT(disps, i) ompi_disp_array_get(disps, i)
#else
typedef const int *gpuhier_counts_t;
typedef const int *gpuhier_disps_t;
typedef const MPI_Aint *gpuhier_aints_t;
#    define GPUHIER_COUNTS_AT(counts, i) ((size_t) (counts)[i])
#    define GPUHIER_DISPS_AT(disps, i) ((ptrdiff_t) (disps)[i])
#endif

#if OMPI_MAJOR_VERSION >= 5
#    include "opal/mca/pmix/pmix-internal.h"
#    define GPUHIER_MODEX_SCOPE PMIX_GLOBAL
#    include "opal/class/opal_cstring.h"
#    include "opal/mca/accelerator/base/base.h"
#    include "opal/mca/threads/thread_usage.h"
#    include "ompi/runtime/params.h"
#    include "opal/runtime/opal.h"
#    include "opal/util/string_copy.h"
#else
#    include "opal/mca/pmix/pmix.h"
#    define GPUHIER_MODEX_SCOPE OPAL_PMIX_GLOBAL
#    include "opal/runtime/opal_params.h"
#    include "opal/threads/thread_usage.h"
#endif
#include "ompi/runtime/mpiruntime.h"
#include "opal/util/info.h"

/*
 * Is the Open MPI that runs of the release that the component was built for? Open MPI loads components of other
 * releases without asking, although its structs differ between releases. text: what MPI_Get_library_version() gives
 * ("Open MPI v4.1.4, package: ..."). False when it names another release than major.minor; the third number does not
 * count. A text that names no release of Open MPI is trusted: products that derive from Open MPI have texts of their
 * own.
 */
static inline bool gpuhier_release_matches(const char *text, int major, int minor)
{
    int running_major, running_minor;
    return 2 != sscanf(text, "Open MPI v%d.%d", &running_major, &running_minor)
           || (running_major == major && running_minor == minor);
}

/* The framework's output stream, for opal_output_verbose(). */
static inline int gpuhier_output(void)
{
    return ompi_coll_base_framework.framework_output;
}

/*
 * Has MPI_Init brought everything that the processes of this job published to every node? Open MPI 6 collects in the
 * background (async_modex) unless told otherwise, but its MPI_Init waits for the end of that.
 */
static inline bool gpuhier_modex_is_complete(void)
{
#if OMPI_MAJOR_VERSION >= 6
    return opal_pmix_collect_all_data;
#else
    return opal_pmix_collect_all_data && !opal_pmix_base_async_modex;
#endif
}

/*
 * Reads what a process published for a component. Returns OMPI_SUCCESS and sets *data_p, which the caller frees, and
 * *bytes_p; or returns an error. If the process has published nothing, Open MPI 4.1 reports that at once. Open MPI 5
 * waits for ever where the process is on another node, so seconds limits the wait there; 0: no limit.
 */
static inline int gpuhier_modex_recv(const mca_base_component_t *component, const opal_process_name_t *name,
                                     int seconds, void **data_p, size_t *bytes_p)
{
    int rc;
#if OMPI_MAJOR_VERSION >= 5
    if (seconds > 0) {
        pmix_proc_t process;
        pmix_value_t *value = NULL;
        pmix_info_t limit;
        char *key = mca_base_component_to_string(component);
        if (NULL == key) {
            return OMPI_ERR_OUT_OF_RESOURCE;
        }
        OPAL_PMIX_CONVERT_NAME(&process, name);
        PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
        rc = PMIx_Get(&process, key, &limit, 1, &value);
        PMIX_INFO_DESTRUCT(&limit);
        free(key);
        if (PMIX_SUCCESS == rc && NULL != value && PMIX_BYTE_OBJECT == value->type) {
            *data_p = value->data.bo.bytes;
            *bytes_p = value->data.bo.size;
            value->data.bo.bytes = NULL;
        } else {
            rc = OMPI_ERR_NOT_FOUND;
        }
        if (NULL != value) {
            PMIX_VALUE_RELEASE(value);
        }
        return rc;
    }
#else
    (void) seconds;
#endif
    OPAL_MODEX_RECV(rc, component, name, data_p, bytes_p);
    return rc;
}

/* Do the collectives of this Open MPI take CUDA device pointers? */
static inline bool gpuhier_ompi_is_cuda_aware(void)
{
#if OMPI_MAJOR_VERSION >= 5
    return 0 == strcmp("cuda", opal_accelerator_base_selected_component.base_version.mca_component_name);
#elif defined(OPAL_CUDA_SUPPORT) && OPAL_CUDA_SUPPORT
    return opal_cuda_support; /* distributions switch it off in openmpi-mca-params.conf */
#else
    return false;
#endif
}

/*
 * The list of components that the maker of a communicator asks for; HAN does so for the communicators that it makes.
 * value: [bytes] gets the text, which is cut to fit. Returns false when the maker asks for none.
 */
static inline bool gpuhier_comm_preference(const struct ompi_communicator_t *comm, char *value, size_t bytes)
{
    int flag = 0;
    if (NULL == comm->super.s_info) {
        return false;
    }
#if OMPI_MAJOR_VERSION >= 5
    opal_cstring_t *text = NULL;
    if (OPAL_SUCCESS == opal_info_get(comm->super.s_info, "ompi_comm_coll_preference", &text, &flag) && 0 != flag) {
        opal_string_copy(value, text->string, bytes);
        OBJ_RELEASE(text);
    }
#else
    (void) opal_info_get(comm->super.s_info, "ompi_comm_coll_preference", (int) bytes - 1, value, &flag);
#endif
    return 0 != flag;
}

/*
 * Is there an MPI_COMM_SELF whose attributes MPI_Finalize deletes? A program that only has sessions has none: Open MPI
 * 5 does not construct MPI_COMM_SELF there. It still accepts an attribute, but never deletes it.
 */
static inline bool gpuhier_comm_self_lives(void)
{
#if OMPI_MAJOR_VERSION >= 5
    return OMPI_MPI_STATE_INIT_COMPLETED == ompi_mpi_state;
#else
    return true;
#endif
}

/*
 * Registers a function that Open MPI calls once, when the last session of a program ends. Open MPI calls the function
 * that was registered last first, so all of Open MPI still works then.
 */
static inline void gpuhier_at_last_session_end(void (*function)(void *))
{
#if OMPI_MAJOR_VERSION >= 5
    opal_finalize_register_cleanup(function);
#else
    (void) function; /* no sessions */
#endif
}

/* Does the program have only one thread, by the thread level of its MPI_Init? Open MPI 5 stores that level. Of a
 * session's level it only stores whether it is MPI_THREAD_MULTIPLE. */
static inline bool gpuhier_has_one_thread(void)
{
    return gpuhier_comm_self_lives() && MPI_THREAD_SINGLE == ompi_mpi_thread_provided && !ompi_mpi_thread_multiple
           && !opal_using_threads();
}

#if defined(OPAL_ENABLE_FT_MPI) && OPAL_ENABLE_FT_MPI
#    define GPUHIER_FAULT_TOLERANT 1
#else
#    define GPUHIER_FAULT_TOLERANT 0 /* 4.1, or configured without it */
#endif

/* Does Open MPI report deaths to programs, and let them revoke communicators (mpirun --with-ft ulfm)? */
static inline bool gpuhier_faults_are_told(void)
{
#if GPUHIER_FAULT_TOLERANT
    return ompi_ftmpi_enabled;
#else
    return false;
#endif
}

/* Does this process know that a member revoked the communicator (MPIX_Comm_revoke)? */
static inline bool gpuhier_comm_is_revoked(struct ompi_communicator_t *comm)
{
#if GPUHIER_FAULT_TOLERANT
    return ompi_comm_is_revoked(comm);
#else
    (void) comm;
    return false;
#endif
}

/* The MPI error with which collectives on the communicator fail: MPI_ERR_REVOKED, MPI_ERR_PROC_FAILED, or MPI_SUCCESS
 * when neither a revocation nor a death is known. */
static inline int gpuhier_comm_fault(struct ompi_communicator_t *comm, bool member_is_dead)
{
#if GPUHIER_FAULT_TOLERANT
    if (ompi_comm_is_revoked(comm)) {
        return MPI_ERR_REVOKED;
    }
    return member_is_dead || ompi_comm_coll_revoked(comm) ? MPI_ERR_PROC_FAILED : MPI_SUCCESS;
#else
    (void) comm;
    (void) member_is_dead;
    return MPI_SUCCESS;
#endif
}

#endif /* GPUHIER_COMPAT_H */
