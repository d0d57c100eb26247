/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the MCA descriptor of the component: registration, open and close, its place among the other components, and the
 * order in which things end. Called by Open MPI's MCA system, and by base/end.
 */
#include "ompi_config.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_lock.h"
#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "host/coll_gpuhier_locked.h"
#include "team/coll_gpuhier_process.h"
#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_report.h"
#include "base/coll_gpuhier_trace.h"
#include "coll/coll_gpuhier_agree.h"
#include "coll/coll_gpuhier_describe.h"
#include "coll/coll_gpuhier_module.h"
#include "plan/coll_gpuhier_schedule.h"
#include "coll/coll_gpuhier_request.h"
#include "engine/coll_gpuhier_queue.h"
#include "ompi/mca/hook/base/base.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"
#include "opal/util/output.h"

/* gpuhier's own version, as in configure.ac; ompi_info shows it. release_check() is about Open MPI's version. */
#define GPUHIER_MAJOR 0
#define GPUHIER_MINOR 3
#define GPUHIER_RELEASE 0

static int component_register(void);
static int component_open(void);
static int component_close(void);

static int init_query(bool progress_threads, bool mpi_threads);

/* The one symbol that Open MPI looks up. */
__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_gpuhier_component = {
    .collm_version =
        {
            GPUHIER_COLL_VERSION,
            .mca_component_name = "gpuhier",
            MCA_BASE_MAKE_VERSION(component, GPUHIER_MAJOR, GPUHIER_MINOR, GPUHIER_RELEASE),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = init_query,
    .collm_comm_query = gpuhier_comm_query,
};

/* The file that this code was loaded from. */
static const char *own_file(void)
{
    Dl_info self;
    return 0 != dladdr(&mca_coll_gpuhier_component, &self) && NULL != self.dli_fname ? self.dli_fname : NULL;
}

/* Adds the component's own folder to those where Open MPI looks for help texts. The text lies there when the component
 * is not installed in Open MPI's folders. */
static void help_find(void)
{
    char *path = NULL != own_file() ? strdup(own_file()) : NULL;
    if (NULL != path) {
        opal_show_help_add_dir(dirname(path));
        free(path);
    }
}

/* Is the component built for the release that runs? Uses no struct of Open MPI, since they differ between releases. */
static bool release_check(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "", host[256] = "";
    int length = 0;
    if (MPI_SUCCESS != PMPI_Get_library_version(text, &length)
        || gpuhier_release_matches(text, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION)) {
        return true;
    }
    (void) gethostname(host, sizeof(host) - 1);
    gpuhier_help("other release", host, NULL != own_file() ? own_file() : "mca_coll_gpuhier.so", OMPI_MAJOR_VERSION,
                 OMPI_MINOR_VERSION, text);
    return false;
}

#if GPUHIER_OUT_OF_TREE
/*
 * Supports `mpirun --mca coll gpuhier`. That list excludes every other coll component, and MPI_Init would abort for
 * lack of the collectives that gpuhier does not have. So when gpuhier is the only name on the list, this function drops
 * the list, has Open MPI find all components again, and removes gpuhier's second entry. Lists with other names or with
 * ^ stay as the user typed them. In Open MPI's own source tree a component must not change what the user selects.
 *
 * In MPI_Init the framework's list holds only gpuhier at this time, so the system's walk of the list ends after
 * gpuhier, whatever is appended here. MPI_T_init_thread and ompi_info register all components that there are, whatever
 * is selected, and nothing is missing then.
 */
static bool rescuing; /* finding all components registers gpuhier again, and must not end up here again */

static int framework_rescue(void)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    if (rescuing || NULL == framework->framework_selection || 0 != strcmp("gpuhier", framework->framework_selection)) {
        return OMPI_SUCCESS;
    }
    framework->framework_selection = NULL; /* the MCA variable owns the string */
    if (opal_list_get_size(&framework->framework_components) > 1) {
        return OMPI_SUCCESS;
    }
    rescuing = true;
    int rc = mca_base_framework_components_register(framework, MCA_BASE_REGISTER_DEFAULT);

    bool seen = false;
    mca_base_component_list_item_t *item, *next;
    OPAL_LIST_FOREACH_SAFE (item, next, &framework->framework_components, mca_base_component_list_item_t) {
        if (0 != strcmp("gpuhier", item->cli_component->mca_component_name)) {
            continue;
        }
        if (seen) {
            opal_list_remove_item(&framework->framework_components, &item->super);
            OBJ_RELEASE(item);
        }
        seen = true;
    }
    rescuing = false;
    return rc;
}
#endif

/* The first of the component's functions that Open MPI calls. */
static int component_register(void)
{
    help_find();
    if (!release_check()) {
        return OMPI_ERR_NOT_AVAILABLE; /* Open MPI drops the component, and goes on */
    }
    const mca_base_component_t *self = &mca_coll_gpuhier_component.collm_version;
    int rc = gpuhier_params_register(self, gpuhier_algorithm_names, GPUHIER_ALGORITHM_COUNT);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_counters_register(self);
#if GPUHIER_OUT_OF_TREE
    rc = OMPI_SUCCESS != rc ? rc : framework_rescue();
#endif
    return rc;
}

/*
 * Open MPI sorts components by priority, takes more than 100 for 100, and among equals the last one of its list gets
 * the calls. So gpuhier goes to the end of the list: then UCC, whose guide sets its priority to 100, serves the calls
 * that gpuhier leaves. Only monitoring stays behind gpuhier, since it counts calls and passes them on.
 *
 * Open MPI may be walking the list, and then has looked up the next entry before it calls init_query().
 */
static void go_last(void)
{
    opal_list_t *list = &ompi_coll_base_framework.framework_components;
    mca_base_component_list_item_t *item, *own = NULL;
    opal_list_item_t *behind = opal_list_get_end(list);
    OPAL_LIST_FOREACH (item, list, mca_base_component_list_item_t) {
        if (&mca_coll_gpuhier_component.collm_version == item->cli_component) {
            own = item;
        } else if (0 == strcmp("monitoring", item->cli_component->mca_component_name)) {
            behind = &item->super;
        }
    }
    if (NULL != own) {
        opal_list_remove_item(list, &own->super);
        opal_list_insert_pos(list, behind, &own->super);
    }
}

static int init_query(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads;
    (void) mpi_threads;
    go_last();
    return OMPI_SUCCESS; /* at all thread levels */
}

/* Open MPI calls this last in MPI_Init. */
static void init_ends(int argc, char **argv, int requested, int *provided)
{
    (void) argc;
    (void) argv;
    (void) requested;
    (void) provided;
    if (gpuhier_params.enable && gpuhier_cuda_present()) {
        (void) gpuhier_end_arm(); /* else the first set-up does */
    }
    if (NULL != gpuhier_params.trace || gpuhier_params.print_info || gpuhier_params.report) {
        gpuhier_serving_tell(MPI_COMM_WORLD);
    }
}

/* Open MPI calls this first in MPI_Finalize, on all ranks of MPI_COMM_WORLD, so all of Open MPI still works. */
static void finalize_begins(void)
{
    bool agreed;
    if (NULL != gpuhier_params.trace) {
        (void) gpuhier_agree(MPI_COMM_WORLD, &agreed);
        gpuhier_trace_write(agreed);
    }
}

static ompi_hook_base_component_t hook = {.hookm_version = {.mca_component_name = "gpuhier"},
                                          .hookm_mpi_init_bottom = init_ends,
                                          .hookm_mpi_finalize_top = finalize_begins};

/* The order in which things end: connections first, since other ranks may still need them; then calls and requests that
 * the program left pending; then the memory that UCX and the GPU have used. Called at the end of the process's life in
 * MPI, see base/coll_gpuhier_end.h. */
static void finalize(void)
{
    gpuhier_call_t *calls = NULL;
    gpuhier_requests_leave_comms();
    gpuhier_process_leave();
    gpuhier_engine_lock();
    gpuhier_devices_check();
    gpuhier_queue_quiesce(&calls);
    gpuhier_requests_quiesce();
    gpuhier_process_close();
    gpuhier_kept_finalize();
    gpuhier_ipc_finalize();
    gpuhier_gdr_finalize();
    gpuhier_device_finalize();
    gpuhier_locked_finalize();
    gpuhier_engine_unlock();
    gpuhier_queue_tell(calls);
}

static int component_open(void)
{
    gpuhier_trace_open();
    (void) ompi_hook_base_register_callbacks(&hook);
    gpuhier_end_open(finalize);
    gpuhier_queue_open();
    int rc = gpuhier_agree_publish(&mca_coll_gpuhier_component.collm_version);
    if (OMPI_SUCCESS != rc) {
        /* No rank uses gpuhier in a communicator with this process, this one included. */
        opal_output_verbose(
            1, gpuhier_output(),
            "coll:gpuhier: could not publish to the other ranks (%d): Open MPI's own collectives serve this job", rc);
    }
    return OMPI_SUCCESS;
}

static int component_close(void)
{
    gpuhier_report_print();
    (void) ompi_hook_base_deregister_callbacks(&hook);
    gpuhier_trace_close();
    gpuhier_requests_close();
    gpuhier_agree_forget();
    return OMPI_SUCCESS;
}
