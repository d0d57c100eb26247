/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb doctor: what is wrong with this machine for gpuhier, each finding with what to do about it.
 *
 * A finding is "ok", a "note" (worth knowing), a "warning" (it costs speed), or a "problem" (it costs the
 * acceleration). Warnings and problems make the exit status 1. Each check adds findings and depends on no other check.
 */
#include "ompi_config.h"

#include "info_topo.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "info_driver.h"
#include "info_json.h"
#include "info_side.h"

#define FINDINGS_MAX 128
#define WRONG_PAIRS_NAMED 8
#define TRIAL_BYTES ((uint64_t) 64 << 10)
#define IPC_BYTES ((size_t) 2 << 20)
#define LOCKED_BYTES_MIN ((rlim_t) 1 << 30)  /* what UCX and page-locked staging may need */
#define SHM_BYTES_MIN ((uint64_t) 256 << 20) /* Docker gives 64 MiB; Open MPI alone needs some for each rank */

typedef enum level { OK, NOTE, WARNING, PROBLEM } level_t;
static const char *const level_names[] = {"ok", "note", "warning", "problem"};

typedef struct finding {
    level_t level;
    const char *subject;
    char text[320];
    char remedy[320]; /* empty: there is nothing to do */
} finding_t;

typedef struct visit {
    const info_options_t *options;
    const info_machine_t *machine;
    const char *root;
    finding_t finding[FINDINGS_MAX];
    int count;
} visit_t;

__attribute__((format(printf, 5, 6))) static void find(visit_t *visit, level_t level, const char *subject,
                                                       const char *remedy, const char *format, ...)
{
    va_list args;

    if (FINDINGS_MAX == visit->count) {
        return;
    }
    finding_t *own = &visit->finding[visit->count++];
    own->level = level;
    own->subject = subject;
    snprintf(own->remedy, sizeof(own->remedy), "%s", remedy);
    va_start(args, format);
    vsnprintf(own->text, sizeof(own->text), format, args);
    va_end(args);
}

static bool exists(const visit_t *visit, const char *path)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", visit->root, path);
    return 0 == access(full, F_OK);
}

/* The first line of a file below the root; false if it cannot be read. */
static bool read_line(const visit_t *visit, const char *path, char *line, size_t room)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", visit->root, path);
    FILE *file = fopen(full, "re");
    line[0] = '\0';
    if (NULL == file) {
        return false;
    }
    const bool read = NULL != fgets(line, (int) room, file);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return read;
}

static void check_versions(visit_t *visit, const info_ucx_t *ucx)
{
    struct utsname system;

    if (0 == uname(&system)) {
        find(visit, OK, "versions", "", "gpuhier_info %s, %s %s on %s, UCX %s", GPUHIER_VERSION, system.sysname,
             system.release, system.machine, ucx->version);
    }
}

/* -- the GPUs ----------------------------------------------------------------------- */

static void check_gpus(visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    const char *why = "";

    if (0 == machine->ngpus) {
        find(visit, PROBLEM, "GPUs",
             "install the NVIDIA driver, or run this on a node with GPUs; in a container, pass them in (--gpus "
             "all)",
             "none: %s", NULL == info_driver(&why) ? why : "the driver shows no device");
        return;
    }
    find(visit, OK, "GPUs", "", "%d%s, driver for CUDA %d.%d", machine->ngpus,
         machine->is_emulated ? " "
                                "emulated"
                              : "",
         machine->cuda_version / 1000, machine->cuda_version % 1000 / 10);
    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' != machine->gpu[i].failure[0]) {
            find(visit, PROBLEM, "GPUs",
                 "look for Xid messages in the kernel's log (dmesg), reset or replace "
                 "the GPU",
                 "GPU%d does not answer and would be left out: %s", i, machine->gpu[i].failure);
        }
        if ('\0' != machine->gpu[i].slice[0]) {
            find(visit, WARNING, "MIG", "use whole GPUs for multi-GPU jobs",
                 "GPU%d is a MIG slice (%s): slices cannot map each other, each rank is a group of one", i,
                 machine->gpu[i].slice);
        }
    }
}

static void check_peers(visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    int refused = 0, pairs = 0, a = 0, b = 0, most = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        int links = 0;
        for (int j = 0; j < machine->ngpus; ++j) {
            if (i != j && '\0' == machine->gpu[i].failure[0] && '\0' == machine->gpu[j].failure[0]) {
                pairs++;
                links += machine->links[i][j];
                if (!machine->peer[i][j]) {
                    a = 0 == refused ? i : a;
                    b = 0 == refused ? j : b;
                    refused++;
                }
            }
        }
        most = links > most ? links : most;
    }
    if (refused > 0) {
        find(visit, WARNING, "peer access",
             "compare with `nvidia-smi topo -p2p r`; between sockets it is often by design, else look at the "
             "IOMMU and ACS",
             "the driver refuses it between %d of %d pairs, for instance GPU%d and GPU%d: they are in different "
             "groups",
             refused / 2, pairs / 2, a, b);
    } else if (pairs > 0) {
        find(visit, OK, "peer access", "", "granted between all %d pairs", pairs / 2);
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        int links = 0;
        for (int j = 0; j < machine->ngpus; ++j) {
            links += machine->links[i][j];
        }
        if (0 == links && most > 0 && '\0' == machine->gpu[i].failure[0]) {
            find(visit, WARNING, "NVLink", "look at `nvidia-smi nvlink -s`, and whether nvidia-fabricmanager runs",
                 "GPU%d has no active link, and others have", i);
        }
    }
}

/* Does a GPU give a handle to some memory of its own? In a job, other processes open it. */
static CUresult try_handle(const info_driver_t *driver, int gpu, const char **call_p)
{
    CUcontext context, none;
    CUdevice device;
    CUdeviceptr memory;
    CUipcMemHandle handle;
    CUresult result;

    *call_p = "cuDevicePrimaryCtxRetain";
    if (CUDA_SUCCESS != (result = driver->cuDeviceGet(&device, gpu))
        || CUDA_SUCCESS != (result = driver->cuDevicePrimaryCtxRetain(&context, device))) {
        return result;
    }
    *call_p = "cuMemAlloc";
    result = driver->cuCtxPushCurrent(context);
    if (CUDA_SUCCESS == result) {
        result = driver->cuMemAlloc(&memory, IPC_BYTES);
        if (CUDA_SUCCESS == result) {
            *call_p = "cuIpcGetMemHandle";
            result = driver->cuIpcGetMemHandle(&handle, memory);
            (void) driver->cuMemFree(memory);
        }
        (void) driver->cuCtxPopCurrent(&none);
    }
    (void) driver->cuDevicePrimaryCtxRelease(device);
    return result;
}

static void check_ipc(visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    const info_driver_t *driver = info_driver(NULL);
    int given = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        const char *call;

        if ('\0' != machine->gpu[i].failure[0]) {
            continue;
        }
        const CUresult result = try_handle(driver, i, &call);
        given += CUDA_SUCCESS == result;
        if (CUDA_SUCCESS != result) {
            find(visit, PROBLEM, "CUDA IPC",
                 "free the GPU's memory where that is what fails; else use whole GPUs of a driver for Linux, without "
                 "confidential computing",
                 "GPU%d gives no handle to its memory, so no rank can map it: %s returns %s", i, call,
                 info_driver_error(result));
        }
    }
    if (given > 0) {
        find(visit, OK, "CUDA IPC", "", "%d GPU%s give%s handles to memory", given, 1 == given ? "" : "s",
             1 == given ? "s" : "");
    }
}

/* Has kernels of one GPU read and write memory of another. A CUDA error ends the trial of that pair only. */
static void try_pair(visit_t *visit, const info_side_t *sides, int own, int other, int *tried_p, int *wrong_p)
{
    const info_driver_t *driver = info_driver(NULL);
    info_trial_t trial = {false, false};
    CUcontext none;

    CUresult result = driver->cuCtxPushCurrent(sides[own].context);
    if (CUDA_SUCCESS == result) {
        result = info_side_reach(&sides[own], &sides[other]);
        (void) driver->cuCtxPopCurrent(&none);
    }
    result = CUDA_SUCCESS != result ? result : info_side_try(&sides[own], &sides[other], &trial);
    const char *text = CUDA_SUCCESS != result ? info_driver_error(result) : info_trial_text(&trial, own);
    ++*tried_p;
    if (NULL != text && ++*wrong_p <= WRONG_PAIRS_NAMED) {
        find(visit, PROBLEM, "peer data",
             CUDA_SUCCESS == result ? INFO_TRIAL_REMEDY : "look for Xid messages in the kernel's log (dmesg)",
             "memory of GPU%d, which the driver lets GPU%d reach: %s", other, own, text);
    }
}

static void check_peer_data(visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    info_side_t sides[INFO_GPUS_MAX] = {0};
    int tried = 0, wrong = 0;

    for (int i = 0; i < machine->ngpus && machine->ngpus > 1; ++i) {
        if ('\0' == machine->gpu[i].failure[0] && CUDA_SUCCESS != info_side_open(&sides[i], i, TRIAL_BYTES)) {
            sides[i].kernel = NULL;
        }
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            if (i != j && machine->peer[i][j] && NULL != sides[i].kernel && NULL != sides[j].kernel) {
                try_pair(visit, sides, i, j, &tried, &wrong);
            }
        }
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        info_side_close(&sides[i], i);
    }
    if (wrong > WRONG_PAIRS_NAMED) {
        find(visit, PROBLEM, "peer data", "gpuhier_info measure names all pairs", "%d more are damaged",
             wrong - WRONG_PAIRS_NAMED);
    } else if (tried > 0 && 0 == wrong) {
        find(visit, OK, "peer data", "", "kernels read and write right data, tried %d ways", tried);
    }
}

/* A slot that trained to fewer lanes than device and slot have. */
static void check_width(visit_t *visit, const gpuhier_pci_id_t *pci, const char *name)
{
    char path[128], now[32], most[32];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/current_link_width", (unsigned) pci->domain,
             pci->bus, pci->device, pci->function);
    const bool known = read_line(visit, path, now, sizeof(now));
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/max_link_width", (unsigned) pci->domain,
             pci->bus, pci->device, pci->function);
    if (known && read_line(visit, path, most, sizeof(most)) && atoi(now) > 0 && atoi(now) < atoi(most)) {
        find(visit, WARNING, "PCIe", "reseat the card, look at the slot and at `lspci -vv` (LnkSta)",
             "%s runs on %s lanes, it has %s", name, now, most);
    }
}

static void check_pcie(visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    char name[64];

    for (int i = 0; i < machine->ngpus; ++i) {
        snprintf(name, sizeof(name), "GPU%d", i);
        check_width(visit, &machine->gpu[i].id.pci, name);
    }
    for (int n = 0; n < machine->nnics; ++n) {
        if (machine->nic[n].found.has_pci && machine->nic[n].found.is_taken) {
            check_width(visit, &machine->nic[n].found.pci, machine->nic[n].found.device);
        }
    }
    if (machine->ngpus > 1 && exists(visit, "/sys/class/iommu/dmar0")) {
        find(visit, NOTE, "IOMMU",
             "on bare metal, boot with iommu=pt or off and switch ACS off; gpuhier_info measure shows what it "
             "costs",
             "it is on: peer traffic over PCIe may go through the host bridge");
    }
}

/* -- the network -------------------------------------------------------------------- */

/* "5.14.0" is at least 5.12? */
static bool kernel_has_dma_buf(void)
{
    struct utsname system;
    int major = 0, minor = 0;

    return 0 == uname(&system) && 2 == sscanf(system.release, "%d.%d", &major, &minor)
           && (major > 5 || (5 == major && minor >= 12));
}

static void check_rdma(visit_t *visit, const info_ucx_t *ucx)
{
    const info_machine_t *machine = visit->machine;
    const bool peermem = exists(visit, "/sys/module/nvidia_peermem") || exists(visit, "/sys/module/nv_peer_mem");
    CUdevice device;
    const info_driver_t *driver = info_driver(NULL);
    const bool dma_buf = NULL != driver && machine->ngpus > 0 && CUDA_SUCCESS == driver->cuDeviceGet(&device, 0)
                         && 0 != info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
                         && kernel_has_dma_buf();

    if (peermem || dma_buf) {
        find(visit, OK, "GPUDirect RDMA", "", "%s%s%s", peermem ? "nvidia_peermem is loaded" : "",
             peermem && dma_buf ? ", " : "", dma_buf ? "driver and kernel have dma-buf" : "");
    } else {
        find(visit, WARNING, "GPUDirect RDMA",
             "`modprobe nvidia_peermem` (and at boot: /etc/modules-load.d), or the open kernel modules on Linux "
             "5.12 for dma-buf; until then coll_gpuhier_net staged",
             "the NIC cannot read GPU memory: nvidia_peermem is not loaded and there is no dma-buf");
    }
    const bool known = GPUHIER_NET_GPU_NO_REGISTRATION == ucx->gpu && !peermem && !dma_buf;
    if ('\0' == ucx->failure[0] && ucx->asked && !ucx->takes_gpu_memory && !known) {
        find(visit, WARNING, "UCX",
             GPUHIER_NET_GPU_NO_REGISTRATION == ucx->gpu
                 ? "use a later UCX: dma-buf needs 1.14, and nvidia_peermem without MLNX_OFED needs 1.18"
                 : gpuhier_net_gpu_remedy(ucx->gpu),
             "UCX %s is given no GPU memory, since %s: data between groups goes through pinned host memory",
             ucx->version, gpuhier_net_gpu_reason(ucx->gpu));
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        info_way_t nearest = INFO_WAY_UNKNOWN;
        for (int n = 0; n < machine->nnics; ++n) {
            if (machine->nic[n].found.is_taken && machine->nic_way[i][n] < nearest) {
                nearest = machine->nic_way[i][n];
            }
        }
        if (INFO_WAY_SYS == nearest) {
            find(visit, NOTE, "distance", "nothing, if the machine has no nearer port; else look why it is down",
                 "GPU%d reaches its nearest network device across sockets or NUMA nodes (SYS)", i);
        }
    }
}

static void check_network(visit_t *visit, const info_ucx_t *ucx)
{
    const info_machine_t *machine = visit->machine;
    bool rdma = false, efa = false;

    for (int n = 0; n < machine->nnics; ++n) {
        const info_nic_t *nic = &machine->nic[n];
        rdma = rdma || (nic->found.is_taken && nic->found.is_rdma);
        efa = efa || (nic->is_efa && nic->found.is_taken);
        if (nic->found.is_closed) {
            find(visit, WARNING, "network",
                 "pass /dev/infiniband into the container (--device), or mend its permissions",
                 "%s is active but this process may not open it", nic->found.device);
        }
    }
    if (0 == machine->record[0].nics) {
        find(visit, NOTE, "network", "", "no network device: jobs of one node only");
    }
    if (efa) {
        find(visit, PROBLEM, "network",
             "name the interfaces that TCP has with coll_gpuhier_devices; UCX up to 1.18 does not speak EFA",
             "the rails would be EFA ports, which UCX %s may not be able to use", ucx->version);
    }
    if ('\0' != ucx->failure[0]) {
        find(visit, PROBLEM, "UCX",
             "look at variables named GPUHIER_UCX_*, and at `ucx_info -d`; calls go to Open MPI's own "
             "collectives until then",
             "UCX %s cannot be opened on the rails: %s", ucx->version, ucx->failure);
    } else {
        find(visit, OK, "UCX", "", "%s opens the rails%s", ucx->version,
             ucx->takes_gpu_memory ? " and takes GPU memory" : "");
    }
    if (rdma) {
        check_rdma(visit, ucx);
    }
}

/* -- the system --------------------------------------------------------------------- */

static void check_limits(visit_t *visit)
{
    struct rlimit limit;
    struct statvfs shm;
    char path[PATH_MAX], text[32];
    const bool rdma = info_machine_is_rdma(visit->machine);

    if (0 == getrlimit(RLIMIT_MEMLOCK, &limit) && RLIM_INFINITY != limit.rlim_cur
        && limit.rlim_cur < LOCKED_BYTES_MIN) {
        find(visit, rdma ? WARNING : NOTE, "locked memory",
             "memlock unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity for slurmd or the container "
             "engine (--ulimit memlock=-1)",
             "a process may lock %s only", info_bytes_text((double) limit.rlim_cur, text));
    } else {
        find(visit, OK, "locked memory", "", "enough");
    }
    snprintf(path, sizeof(path), "%s/dev/shm", visit->root);
    if (0 != statvfs(path, &shm)) {
        find(visit, PROBLEM, "/dev/shm", "mount a tmpfs there",
             "there is none: ranks of a node cannot share "
             "memory");
    } else {
        const uint64_t bytes = (uint64_t) shm.f_blocks * shm.f_frsize;
        const bool small = bytes < SHM_BYTES_MIN;
        find(visit, small ? WARNING : OK, "/dev/shm",
             small ? "make it larger: docker run --shm-size 1g, or mount -o remount,size=1g /dev/shm" : "", "%s",
             info_bytes_text((double) bytes, text));
    }
}

static void check_containers(visit_t *visit)
{
    if (exists(visit, "/.dockerenv") || exists(visit, "/run/.containerenv")) {
        find(visit, NOTE, "containers",
             "ranks of one node need one IPC namespace and one /dev/shm: --ipc=host, and --pid=host",
             "this is a container: ranks in different ones cannot map each other's GPU memory");
    }
    const char *per_task = getenv("SLURM_GPUS_PER_TASK");
    if (NULL != per_task && '\0' != per_task[0]) {
        find(visit, WARNING, "Slurm",
             "ask for --gpus-per-node, and let each rank choose by SLURM_LOCALID; or --gpu-bind=none",
             "--gpus-per-task is set: its cgroups can keep ranks from mapping each other's GPUs");
    }
}

/* -- Open MPI ----------------------------------------------------------------------- */

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

/* What ompi_info says of the components of coll: are we there, and who stands above us? */
static void check_components(visit_t *visit)
{
    static const char before[] = "mca:coll:", after[] = "_priority:value:";
    const int priority = visit->options->mca.priority;
    FILE *said = popen("ompi_info --parsable --param coll all --level 9 2>/dev/null", "re");
    char line[1024], above[256] = "";
    bool any = false, here = false;

    while (NULL != said && NULL != fgets(line, sizeof(line), said)) {
        const char *value = strstr(line, after);
        char name[64];

        any = true;
        if (0 != strncmp(line, before, sizeof(before) - 1) || 1 != sscanf(line + sizeof(before) - 1, "%63[^:]", name)) {
            continue;
        }
        here = here || 0 == strcmp(name, "gpuhier");
        if (NULL != value && 0 != strcmp(name, "gpuhier") && atoi(value + sizeof(after) - 1) >= priority) {
            snprintf(above + strlen(above), sizeof(above) - strlen(above),
                     "%s%s "
                     "(%d)",
                     '\0' == above[0] ? "" : ", ", name, atoi(value + sizeof(after) - 1));
        }
    }
    if (NULL != said) {
        (void) pclose(said);
    }
    if (!any) {
        find(visit, WARNING, "Open MPI", "put Open MPI's bin folder on PATH (module load openmpi)",
             "ompi_info does not run: nothing is known of Open MPI and its components");
        return;
    }
    if (!here) {
        find(visit, PROBLEM, "Open MPI",
             "install it into that Open MPI (make install), or name its folder in "
             "OMPI_MCA_mca_base_component_path; run with --mca mca_base_component_show_load_errors 1",
             "this Open MPI does not load the component gpuhier");
        return;
    }
    if ('\0' != above[0]) {
        find(visit, WARNING, "Open MPI",
             "raise coll_gpuhier_priority above them, or leave them out with --mca coll ^NAME",
             "components of the same or a higher priority than gpuhier's %d get the calls first: "
             "%s",
             priority, above);
    } else {
        find(visit, OK, "Open MPI", "", "gpuhier is found, and nothing stands above its priority of %d", priority);
    }
}

static void check_mpi(visit_t *visit)
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
        find(visit, WARNING, "MPI", "put Open MPI's bin folder on PATH (module load openmpi)",
             "mpirun does not "
             "run");
    } else if (NULL == strstr(line, "Open MPI")) {
        find(visit, PROBLEM, "MPI", "gpuhier is a component of Open MPI: use that", "mpirun is not Open MPI's: %s",
             line);
    } else {
        find(visit, OK, "MPI", "", "%s", line);
    }
    check_components(visit);
    const char *list = info_mca_find(mca, "coll", &where);
    if (NULL != list && is_excluded(list)) {
        find(visit, PROBLEM, "settings", "change coll there, or override it with --mca coll",
             "coll is '%s' (%s), which leaves gpuhier out", list, where);
    }
    if (mca->priority < 0 || !mca->enable || 0 == mca->probe) {
        find(visit, WARNING, "settings",
             "remove the setting; gpuhier_info reads the same files and environment as a job",
             "gpuhier is switched off: coll_gpuhier_%s",
             mca->priority < 0 ? "priority is below 0"
             : !mca->enable    ? "enable is false"
                               : "probe is 0");
    }
}

/* -- output ------------------------------------------------------------------------- */

static int print(const visit_t *visit)
{
    int bad = 0;

    if (visit->options->json) {
        info_json_open(NULL, '{');
        info_json_text("machine", visit->machine->title);
        info_json_bool("emulated", visit->machine->is_emulated);
        info_json_open("findings", '[');
    } else {
        printf("machine: %s\n", visit->machine->title);
        if ('\0' != visit->machine->blind[0]) {
            printf("%s\n", visit->machine->blind);
        }
    }
    for (int i = 0; i < visit->count; ++i) {
        const finding_t *own = &visit->finding[i];

        bad += own->level >= WARNING;
        if (visit->options->json) {
            info_json_open(NULL, '{');
            info_json_text("level", level_names[own->level]);
            info_json_text("subject", own->subject);
            info_json_text("text", own->text);
            info_json_text("remedy", '\0' == own->remedy[0] ? NULL : own->remedy);
            info_json_close();
        } else {
            printf("%-8s %s: %s\n", level_names[own->level], own->subject, own->text);
            if ('\0' != own->remedy[0]) {
                printf("%-8s   -> %s\n", "", own->remedy);
            }
        }
    }
    if (visit->options->json) {
        info_json_close();
        info_json_int("to_mend", bad);
        info_json_close();
    } else {
        printf("%d finding%s to mend\n", bad, 1 == bad ? "" : "s");
    }
    return 0 == bad ? INFO_OK : INFO_FINDINGS;
}

int info_doctor(const info_options_t *options)
{
    info_machine_t *machine = NULL;
    info_ucx_t ucx;
    int rc = info_machine_load(options, &machine);

    if (INFO_OK != rc) {
        return rc;
    }
    visit_t *visit = calloc(1, sizeof(*visit));
    if (NULL == visit) {
        info_machine_free(machine);
        return info_fail(INFO_FAILED, "out of memory");
    }
    visit->options = options;
    visit->machine = machine;
    visit->root = NULL == options->root ? "" : options->root;
    info_ask_ucx(machine, options, &ucx);
    check_versions(visit, &ucx);
    check_gpus(visit);
    check_peers(visit);
    check_ipc(visit);
    check_peer_data(visit);
    check_pcie(visit);
    check_network(visit, &ucx);
    check_limits(visit);
    check_containers(visit);
    check_mpi(visit);
    rc = print(visit);
    free(visit);
    info_machine_free(machine);
    return rc;
}
