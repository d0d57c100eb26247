/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The doctor's checks of what surrounds a job: limits, containers, Slurm, and Open MPI with its settings.
 */
#include "ompi_config.h"

#include "info_doctor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#define LOCKED_BYTES_MIN ((rlim_t) 1 << 30)  /* what UCX and page-locked staging may need */
#define SHM_BYTES_MIN ((uint64_t) 256 << 20) /* Docker gives 64 MiB; Open MPI alone needs some for each rank */

static void check_limits(info_visit_t *visit)
{
    struct rlimit limit;
    struct statvfs shm;
    char path[PATH_MAX], text[32];
    const bool rdma = info_machine_is_rdma(visit->machine);

    if (0 == getrlimit(RLIMIT_MEMLOCK, &limit) && RLIM_INFINITY != limit.rlim_cur
        && limit.rlim_cur < LOCKED_BYTES_MIN) {
        info_find(visit, rdma ? WARNING : NOTE, "locked memory",
                  "memlock unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity for slurmd or the container "
                  "engine (--ulimit memlock=-1)",
                  "a process may lock %s only", info_bytes_text((double) limit.rlim_cur, text));
    } else {
        info_find(visit, OK, "locked memory", "", "enough");
    }
    snprintf(path, sizeof(path), "%s/dev/shm", visit->root);
    if (0 != statvfs(path, &shm)) {
        info_find(visit, PROBLEM, "/dev/shm", "mount a tmpfs there",
                  "there is none: ranks of a node cannot share "
                  "memory");
    } else {
        const uint64_t bytes = (uint64_t) shm.f_blocks * shm.f_frsize;
        const bool small = bytes < SHM_BYTES_MIN;
        info_find(visit, small ? WARNING : OK, "/dev/shm",
                  small ? "make it larger: docker run --shm-size 1g, or mount -o remount,size=1g /dev/shm" : "", "%s",
                  info_bytes_text((double) bytes, text));
    }
}

static void check_containers(info_visit_t *visit)
{
    if (info_visit_has(visit, "/.dockerenv") || info_visit_has(visit, "/run/.containerenv")) {
        info_find(visit, NOTE, "containers",
                  "ranks of one node need one IPC namespace and one /dev/shm: --ipc=host, and --pid=host",
                  "this is a container: ranks in different ones cannot map each other's GPU memory");
    }
    const char *per_task = getenv("SLURM_GPUS_PER_TASK");
    if (NULL != per_task && '\0' != per_task[0]) {
        info_find(visit, WARNING, "Slurm",
                  "ask for --gpus-per-node, and let each rank choose by SLURM_LOCALID; or --gpu-bind=none",
                  "--gpus-per-task is set: its cgroups can keep ranks from mapping each other's GPUs");
    }
}

/* Is gpuhier left out by a list of components such as "^gpuhier" or "tuned,basic,libnbc"? */
static bool is_excluded(const char *list)
{
    const bool negative = '^' == *list;
    bool named = false;
    char copy[512];
    char *save = NULL;

    snprintf(copy, sizeof(copy), "%s", list + negative);
    for (char *word = strtok_r(copy, ", ", &save); NULL != word; word = strtok_r(NULL, ", ", &save)) {
        named = named || 0 == strcmp(word, "gpuhier");
    }
    return '\0' != *list && named == negative;
}

/* A component of coll, as ompi_info tells of it. */
typedef struct component {
    char name[64];
    int priority;
    bool is_off; /* by its parameter `enable`, as UCC is by default */
} component_t;

#define COMPONENTS_MAX 64

/* The entry of a component; a new one has priority -1. NULL: there are too many. */
static component_t *component_entry(component_t *list, int *count, const char *name)
{
    for (int i = 0; i < *count; ++i) {
        if (0 == strcmp(name, list[i].name)) {
            return &list[i];
        }
    }
    if (COMPONENTS_MAX == *count) {
        return NULL;
    }
    list[*count] = (component_t){.priority = -1};
    snprintf(list[*count].name, sizeof(list[*count].name), "%.63s", name);
    return &list[(*count)++];
}

/* Asks ompi_info, with the settings of the command line. Returns false if it does not run. */
static bool components_read(const info_visit_t *visit, component_t *list, int *count)
{
    static const char before[] = "mca:coll:";
    const info_mca_t *mca = &visit->options->mca;
    char line[1024], name[256];
    bool any = false;

    *count = 0;
    for (int i = 0; i < mca->options; ++i) {
        snprintf(name, sizeof(name), "OMPI_MCA_%s", mca->option[i][0]);
        (void) setenv(name, mca->option[i][1], 1);
    }
    FILE *said = popen("ompi_info --parsable --param coll all --level 9 2>/dev/null", "re");
    while (NULL != said && NULL != fgets(line, sizeof(line), said)) {
        any = true;
        if (0 != strncmp(line, before, sizeof(before) - 1) || 1 != sscanf(line + sizeof(before) - 1, "%63[^:]", name)) {
            continue;
        }
        component_t *own = component_entry(list, count, name);
        const char *priority = strstr(line, "_priority:value:"), *enable = strstr(line, "_enable:value:");
        if (NULL != own && NULL != priority) {
            own->priority = atoi(strrchr(priority, ':') + 1);
            own->priority = own->priority < 100 ? own->priority : 100;
        }
        if (NULL != own && NULL != enable) {
            own->is_off = '0' == strrchr(enable, ':')[1] || 'f' == strrchr(enable, ':')[1];
        }
    }
    if (NULL != said) {
        (void) pclose(said);
    }
    return any;
}

/* Is gpuhier there, and which components stand above it? Open MPI takes more than 100 for 100, and of equal ones
 * gpuhier gets the calls. */
static void check_components(info_visit_t *visit)
{
    const int priority = visit->options->mca.priority < 100 ? visit->options->mca.priority : 100;
    component_t list[COMPONENTS_MAX];
    char above[256] = "";
    bool here = false;
    int count;

    if (!components_read(visit, list, &count)) {
        info_find(visit, WARNING, "Open MPI", "put Open MPI's bin folder on PATH (module load openmpi)",
                  "ompi_info does not run: nothing is known of Open MPI and its components");
        return;
    }
    for (int i = 0; i < count; ++i) {
        const size_t at = strlen(above);
        here = here || 0 == strcmp(list[i].name, "gpuhier");
        if (list[i].priority > priority && !list[i].is_off && 0 != strcmp(list[i].name, "gpuhier")) {
            snprintf(above + at, sizeof(above) - at, "%s%.63s (%d)", 0 == at ? "" : ", ", list[i].name,
                     list[i].priority);
        }
    }
    if (!here) {
        info_find(visit, PROBLEM, "Open MPI",
                  "install it into that Open MPI (make install), or name its folder in "
                  "OMPI_MCA_mca_base_component_path; run with --mca mca_base_component_show_load_errors 1",
                  "this Open MPI does not load the component gpuhier");
    } else if ('\0' != above[0]) {
        info_find(
            visit, WARNING, "Open MPI",
            "raise coll_gpuhier_priority above them, or leave them out with --mca coll ^NAME; mpirun gpuhier_info "
            "job says who serves each collective",
            "components of a higher priority than gpuhier's %d get the calls that they serve: %s", priority, above);
    } else {
        info_find(visit, OK, "Open MPI", "", "gpuhier is found, and nothing stands above its priority of %d", priority);
    }
}

static void check_mpi(info_visit_t *visit)
{
    const info_mca_t *mca = &visit->options->mca;
    const char *where = "";
    char line[256] = "";
    FILE *said = popen("mpirun --version 2>/dev/null", "re");

    if (NULL == said || NULL == fgets(line, sizeof(line), said)) {
        line[0] = '\0';
    }
    if (NULL != said) {
        (void) pclose(said);
    }
    line[strcspn(line, "\n")] = '\0';
    if ('\0' == line[0]) {
        info_find(visit, WARNING, "MPI", "put Open MPI's bin folder on PATH (module load openmpi)",
                  "mpirun does not "
                  "run");
    } else if (NULL == strstr(line, "Open MPI")) {
        info_find(visit, PROBLEM, "MPI", "gpuhier is a component of Open MPI: use that", "mpirun is not Open MPI's: %s",
                  line);
    } else {
        info_find(visit, OK, "MPI", "", "%s", line);
    }
    check_components(visit);
    const char *list = info_mca_find(mca, "coll", &where);
    if (NULL != list && is_excluded(list)) {
        info_find(visit, PROBLEM, "settings", "change coll there, or override it with --mca coll",
                  "coll is '%s' (%s), which leaves gpuhier out", list, where);
    }
    if (NULL != info_mca_off(mca)) {
        info_find(visit, WARNING, "settings",
                  "remove the setting; gpuhier_info reads the same files and environment as a job",
                  "gpuhier is switched off: %s", info_mca_off(mca));
    }
}

void info_doctor_system(info_visit_t *visit)
{
    check_limits(visit);
    check_containers(visit);
    check_mpi(visit);
}
