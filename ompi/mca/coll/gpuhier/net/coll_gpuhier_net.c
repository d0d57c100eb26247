/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The net itself: opens UCX for each rail, makes progress, and closes.
 *
 * It does not look into connections (coll_gpuhier_net_peer.c) and operations (coll_gpuhier_net_op.c): it asks those
 * files to end them.
 *
 * How it works: UCX chooses network devices for each context, so each rail has a context whose NET_DEVICES is one
 * device, and one worker. The contexts read their configuration under a prefix of gpuhier's own; options[] says what is
 * set. The contexts are asked at run time whether they take CUDA memory, and whether their NICs reach it, because the
 * UCX library at run time need not be the one at build time.
 *
 * Called by team/, engine/ and gpuhier_info through coll_gpuhier_net.h.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ompi/constants.h"

#define CONFIG_PREFIX "GPUHIER"
/* Close waits until this many milliseconds have passed without an event, so that other processes finish connecting. */
#define QUIET_MS 5
/* Rounds of a rail's worker in a call of progress: enough for a burst, and a bound for the time under the lock. */
#define PROGRESS_ROUNDS 16
/* One in this many calls of progress looks at idle rails, because a look costs system calls. */
#define IDLE_RAIL_EVERY 16

/*
 * The options that gpuhier sets in each context. UCX applies UCX_<X> to contexts with their own prefix too, and a job's
 * UCX_TLS or UCX_NET_DEVICES is meant for Open MPI's own UCX. Therefore this table sets all options that choose
 * transports. GPUHIER_UCX_<X> in the environment overrides the table.
 */
static const struct {
    const char *name;
    const char *value;
} options[] = {
    /*
     * cuda_ipc would open handles of peer memory that gpuhier's cache has open, and a handle can be open only once.
     * Shared memory (sm) does not always report the death of a peer during a transfer (UCX 1.13, even with error
     * handling on), so groups of one node also talk through network devices.
     */
    {"TLS", "^cuda_ipc,sm"},
    {"NET_DEVICES", "all"},
    {"SHM_DEVICES", "all"},
    {"ACC_DEVICES", "all"},
    {"SELF_DEVICES", "all"},
    /* A UCX without CUDA does not know cuda_ipc, and must not warn about that. */
    {"WARN_INVALID_CONFIG", "n"},
    /* A larger payload waits at the sender until the receive is posted. */
    {"RNDV_THRESH", "8256"},
    /*
     * UCX's tcp (1.13 to 1.22) completes a partly sent zero-copy fragment twice when its peer dies, and then aborts
     * the process. The option keeps active messages from zero copy. The rendezvous of UCX 1.18 and later ignores it, so
     * context_init() sets PROTOS as well. Neither option affects a rendezvous by RDMA.
     */
    {"ZCOPY_THRESH", "inf"},
    /* The time after which UCX notices the death of a peer that breaks no connection. */
    {"KEEPALIVE_INTERVAL", "1s"},
    /* A rail is one device. A message that is split over lanes would leave it. */
    {"MAX_EAGER_RAILS", "1"},
    {"MAX_RNDV_RAILS", "1"},
};

_Static_assert(65600 == GPUHIER_NET_TCP_EAGER_MAX, "RNDV_THRESH in context_init() is the same number");
_Static_assert(8256 == GPUHIER_NET_EAGER_MAX, "RNDV_THRESH in options[] is the same number");

/* The text of open's last error: one for each thread, so that no caller has to free it. */
static _Thread_local char open_error[256];

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(open_error, sizeof(open_error), format, args);
    va_end(args);
    return code;
}

/* Does the machine have the device, "eth0" or "mlx5_0:1"? UCX would ignore the name without a word. */
static bool device_exists(const char *device)
{
    char base[GPUHIER_NET_DEVICE_MAX];
    snprintf(base, sizeof(base), "%.*s", (int) strcspn(device, ":"), device);
    char path[GPUHIER_NET_DEVICE_MAX + 32];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s", base);
    return 0 != if_nametoindex(base) || 0 == access(path, F_OK);
}

static ucs_status_t config_set(ucp_config_t *config, const char *name, const char *value)
{
    char variable[64];
    snprintf(variable, sizeof(variable), CONFIG_PREFIX "_UCX_%s", name);
    return (NULL != getenv(variable)) ? UCS_OK : ucp_config_modify(config, name, value);
}

/* Sets an option that tcp alone has. Its name has a prefix since UCX 1.17. */
static ucs_status_t config_set_of_tcp(ucp_config_t *config, const char *name, const char *value)
{
    char variable[64];
    snprintf(variable, sizeof(variable), CONFIG_PREFIX "_UCX_TCP_%s", name);
    if (NULL != getenv(variable)) {
        return UCS_OK;
    }
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    snprintf(variable, sizeof(variable), "%s%s", (major > 1 || minor >= 17) ? "TCP_" : "", name);
    return ucp_config_modify(config, variable, value);
}

/* Sets options of tcp, if UCX will open tcp: UCX warns about an option that no transport takes. */
static ucs_status_t config_set_tcp(ucp_config_t *config, const char *device)
{
    if (NULL != getenv(CONFIG_PREFIX "_UCX_TLS") || (NULL != device && 0 == if_nametoindex(device))) {
        return UCS_OK;
    }
    /* The buffer that tcp sends at once. Each send costs a system call, and the default is 8 KiB. */
    ucs_status_t status = config_set_of_tcp(config, "TX_SEG_SIZE", "64k");
    /* Otherwise connect() waits under the engine's lock, for minutes if an address leads nowhere. */
    return UCS_OK == status ? config_set_of_tcp(config, "CONN_NB", "y") : status;
}

/* Does the device certainly mean tcp? */
static bool is_tcp(const char *device)
{
    return NULL != device && 0 != if_nametoindex(device);
}

/*
 * UCX from 1.16 on passes over the interface of a bridge unless it is told not to. An older UCX uses it, and warns
 * about the option, as about all that it does not know. UCX itself recognizes a bridge by this folder.
 */
static ucs_status_t config_set_bridge(ucp_config_t *config, const char *device)
{
    char path[GPUHIER_NET_DEVICE_MAX + 32];
    unsigned major, minor, release;
    snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", device);
    ucp_get_version(&major, &minor, &release);
    if (0 != access(path, F_OK) || (1 == major && minor < 16)) {
        return UCS_OK;
    }
    return config_set_of_tcp(config, "BRIDGE_ENABLE", "y");
}

/* Makes a context for one device, or for all when device is NULL. */
static ucs_status_t context_init(const char *device, ucp_context_h *context_p)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(CONFIG_PREFIX, NULL, &config);
    if (UCS_OK != status) {
        return status;
    }
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && UCS_OK == status; ++i) {
        status = config_set(config, options[i].name, options[i].value);
    }
    if (UCS_OK == status && is_tcp(device)) {
        /* On tcp the processor copies all payload, so a rendezvous costs more than it saves up to this size. */
        status = config_set(config, "RNDV_THRESH", "65600");
    }
    if (UCS_OK == status && (NULL == device || is_tcp(device))) {
        /* Since UCX 1.18 this rendezvous ignores ZCOPY_THRESH. Without it rndv/am/bcopy sends the same payload. */
        status = config_set(config, "PROTOS", "^rndv/am/zcopy");
    }
    if (UCS_OK == status) {
        status = config_set_tcp(config, device);
    }
    if (UCS_OK == status && is_tcp(device)) {
        status = config_set_bridge(config, device);
    }
    if (UCS_OK == status && NULL != device) {
        status = ucp_config_modify(config, "NET_DEVICES", device);
    }
    if (UCS_OK == status) {
        const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED
                                                   | UCP_PARAM_FIELD_NAME,
                                     .features = UCP_FEATURE_TAG,
                                     .mt_workers_shared = 0,
                                     .name = "gpuhier"};
        status = ucp_init(&params, config, context_p);
    }
    ucp_config_release(config);
    return status;
}

static void rail_close(gpuhier_net_rail_t *rail)
{
    if (NULL != rail->worker && NULL != rail->address) {
        ucp_worker_release_address(rail->worker, rail->address);
    } else {
        free(rail->address); /* over a carrier */
    }
    if (NULL != rail->worker) {
        ucp_worker_destroy(rail->worker);
    }
    if (NULL != rail->context) {
        ucp_cleanup(rail->context);
    }
    rail->context = NULL;
    rail->worker = NULL;
    rail->address = NULL;
}

static void rails_close(gpuhier_net_t *net)
{
    for (int rail = 0; rail < net->nrails; ++rail) {
        rail_close(&net->rails[rail]);
    }
}

/* Opens one rail. device: its name, or NULL where UCX chooses. */
static int rail_open(gpuhier_net_rail_t *rail, const char *device, gpuhier_net_cuda_mode_t mode)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    const char *step = "ucp_init";
    ucs_status_t status;

    if (NULL != device && !device_exists(device)) {
        return fail(OMPI_ERR_NOT_FOUND,
                    "there is no network device named %s; name devices of /sys/class/net or /sys/class/infiniband "
                    "(NAME:PORT)",
                    device);
    }
    status = context_init(device, &rail->context);
    if (UCS_OK == status) {
        step = "ucp_context_query";
        status = ucp_context_query(rail->context, &attr);
    }
    if (UCS_OK == status && NULL != device && !gpuhier_net_facts_has_device(rail->context, device)) {
        step = "finding a transport";
        status = UCS_ERR_NO_DEVICE;
    }
    if (UCS_OK == status) {
        step = "ucp_worker_create";
        status = ucp_worker_create(rail->context, &params, &rail->worker);
    }
    if (UCS_OK == status) {
        step = "ucp_worker_get_address";
        status = ucp_worker_get_address(rail->worker, &rail->address, &rail->address_bytes);
    }
    if (UCS_OK != status) {
        fail(OMPI_ERROR,
             "%s on network device %s failed: %s (UCX %s); look at variables named " CONFIG_PREFIX "_UCX_*, or run "
             "with UCX_LOG_LEVEL=info",
             step, rail->device, ucs_status_string(status), ucp_get_version_string());
        rail_close(rail);
        return gpuhier_net_code(status);
    }
    rail->is_tcp = is_tcp(device);
    gpuhier_net_gpu_facts_t facts = {.takes_cuda = 0 != (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA))};
    if (GPUHIER_NET_CUDA_AUTO == mode) {
        gpuhier_net_facts_find(rail, facts.takes_cuda, &facts);
    }
    rail->gpu = gpuhier_net_gpu_decide(mode, &facts);
    return OMPI_SUCCESS;
}

/* Empties the error text of this thread, and returns its address. */
static const char *error_begin(void)
{
    open_error[0] = '\0';
    return open_error;
}

int gpuhier_net_prepare(const char *const *devices, int nrails, gpuhier_net_cuda_mode_t cuda_mode,
                        gpuhier_net_t **net_p, const char **error_p)
{
    const char *error = error_begin();
    if (NULL != error_p) {
        *error_p = error;
    }
    if (nrails < 0 || nrails > GPUHIER_RAILS_MAX || (nrails > 0 && NULL == devices)) {
        return fail(OMPI_ERR_BAD_PARAM, "%d rails asked for; use 0 to %d", nrails, GPUHIER_RAILS_MAX);
    }
    gpuhier_net_t *net = calloc(1, sizeof(*net));
    if (NULL == net) {
        return fail(OMPI_ERR_OUT_OF_RESOURCE, "out of memory");
    }
    net->nrails = (0 == nrails) ? 1 : nrails;
    net->has_devices = 0 != nrails;
    net->cuda_mode = cuda_mode;
    for (int i = 0; i < net->nrails; ++i) {
        const char *device = net->has_devices ? devices[i] : "all";
        if (strlen(device) >= sizeof(net->rails[i].device)) {
            free(net);
            return fail(OMPI_ERR_NOT_FOUND, "there is no network device named %s", device);
        }
        memcpy(net->rails[i].device, device, strlen(device) + 1);
    }
    *net_p = net;
    return OMPI_SUCCESS;
}

int gpuhier_net_open_rails(gpuhier_net_t *net, unsigned rails, const char **error_p)
{
    const char *error = error_begin();
    if (NULL != error_p) {
        *error_p = error;
    }
    rails |= 1;
    for (int i = 0; i < net->nrails; ++i) {
        gpuhier_net_rail_t *rail = &net->rails[i];
        if (0 == (rails >> i & 1) || gpuhier_net_rail_is_open(rail)) {
            continue;
        }
        int rc = rail_open(rail, net->has_devices ? rail->device : NULL, net->cuda_mode);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        if (GPUHIER_NET_CUDA_DIRECT == net->cuda_mode && !gpuhier_net_gpu_is_yes(rail->gpu)) {
            rail_close(rail);
            return fail(OMPI_ERR_NOT_SUPPORTED,
                        "direct transfers of CUDA memory were asked for, but this UCX (%s) has no CUDA support or "
                        "finds no CUDA device; install a UCX built with CUDA, or choose auto or staged",
                        ucp_get_version_string());
        }
    }
    return OMPI_SUCCESS;
}

int gpuhier_net_open(const char *const *devices, int nrails, gpuhier_net_cuda_mode_t cuda_mode, gpuhier_net_t **net_p,
                     const char **error_p)
{
    gpuhier_net_t *net;
    int rc = gpuhier_net_prepare(devices, nrails, cuda_mode, &net, error_p);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = gpuhier_net_open_rails(net, UINT_MAX, error_p);
    if (OMPI_SUCCESS != rc) {
        rails_close(net);
        free(net);
        return rc;
    }
    *net_p = net;
    return OMPI_SUCCESS;
}

int gpuhier_net_open_carrier(const gpuhier_net_carrier_t *carrier, uint64_t job, uint32_t rank, gpuhier_net_t **net_p)
{
    gpuhier_net_t *net = calloc(1, sizeof(*net));
    gpuhier_net_carrier_address_t *address = malloc(sizeof(*address));
    if (NULL == net || NULL == address) {
        free(net);
        free(address);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *address = (gpuhier_net_carrier_address_t){.job = job, .rank = rank};
    net->carrier = carrier;
    net->nrails = 1;
    net->rails[0].address = (ucp_address_t *) address;
    net->rails[0].address_bytes = sizeof(*address);
    net->rails[0].gpu = GPUHIER_NET_GPU_MPI;
    *net_p = net;
    return OMPI_SUCCESS;
}

int gpuhier_net_progress(gpuhier_net_t *net)
{
    int events = NULL != net->carrier ? gpuhier_net_stream_progress(net) : 0;
    ++net->rounds;
    for (int i = 0; i < net->nrails && NULL == net->carrier; ++i) {
        gpuhier_net_rail_t *rail = &net->rails[i];
        if (!gpuhier_net_rail_is_open(rail)) {
            continue;
        }
        if (0 == rail->pending && 0 == rail->warm && 0 != net->rounds % IDLE_RAIL_EVERY) {
            continue;
        }
        rail->warm -= rail->warm > 0 ? 1 : 0;
        for (int round = 0; round < PROGRESS_ROUNDS; ++round) {
            const unsigned done = ucp_worker_progress(rail->worker);
            if (0 == done) {
                break;
            }
            events += (int) done;
        }
    }
    if (net->has_new_failure) {
        events += gpuhier_net_reap(net);
    }
    if (net->has_unused) {
        gpuhier_net_unused_free(net);
    }
    return events;
}

/* Sends out what UCX still holds, for GPUHIER_NET_DRAIN_MS at most. */
static void drain(gpuhier_net_t *net)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t flushes[GPUHIER_RAILS_MAX];
    const uint64_t deadline = gpuhier_clock_ms() + GPUHIER_NET_DRAIN_MS;
    for (int rail = 0; rail < net->nrails; ++rail) {
        flushes[rail] =
            gpuhier_net_rail_is_open(&net->rails[rail]) ? ucp_worker_flush_nbx(net->rails[rail].worker, &param) : NULL;
    }
    for (int rail = 0; rail < net->nrails; ++rail) {
        if (!UCS_PTR_IS_PTR(flushes[rail])) {
            continue;
        }
        while (UCS_INPROGRESS == ucp_request_check_status(flushes[rail]) && gpuhier_clock_ms() < deadline) {
            gpuhier_net_progress(net);
        }
        ucp_request_free(flushes[rail]);
    }
}

/*
 * Waits until no other process is just connecting: UCX 1.13 aborts when it destroys a worker that has to answer a
 * connection request.
 */
static void settle(gpuhier_net_t *net)
{
    uint64_t now = gpuhier_clock_ms();
    uint64_t deadline = now + GPUHIER_NET_DRAIN_MS;
    uint64_t quiet_since = now;
    const struct timespec pause = {.tv_nsec = 100000};
    while (now < deadline && now < quiet_since + QUIET_MS) {
        if (0 != gpuhier_net_progress(net)) {
            quiet_since = gpuhier_clock_ms();
        } else {
            nanosleep(&pause, NULL);
        }
        now = gpuhier_clock_ms();
    }
}

void gpuhier_net_close(gpuhier_net_t *net)
{
    if (NULL == net) {
        return;
    }
    net->error_handler = NULL;
    if (NULL == net->carrier) {
        drain(net);
        settle(net);
    }
    gpuhier_net_connections_close(net);
    uint64_t deadline = gpuhier_clock_ms() + GPUHIER_NET_DRAIN_MS;
    while (0 != net->pending && gpuhier_clock_ms() < deadline) {
        if (NULL != net->carrier) {
            net->carrier->progress();
        }
        gpuhier_net_progress(net);
    }
    if (NULL != net->carrier && 0 != net->pending) {
        /* A late partner makes Open MPI read and write the memory of these operations. It is kept until the process
         * ends. */
        return;
    }
    rails_close(net);
    /* The workers are gone, so nothing touches the operations that are still pending. */
    gpuhier_net_connections_free(net);
    free(net);
}

void gpuhier_net_set_error_handler(gpuhier_net_t *net, gpuhier_net_error_fn_t handler, void *arg)
{
    net->error_handler = handler;
    net->error_arg = arg;
}

int gpuhier_net_rails(const gpuhier_net_t *net)
{
    return net->nrails;
}

bool gpuhier_net_can_cuda(const gpuhier_net_t *net)
{
    return gpuhier_net_gpu_is_yes(gpuhier_net_gpu(net));
}

gpuhier_net_gpu_t gpuhier_net_gpu(const gpuhier_net_t *net)
{
    gpuhier_net_gpu_t answer = net->rails[0].gpu;
    for (int rail = 1; rail < net->nrails && gpuhier_net_gpu_is_yes(answer); ++rail) {
        answer = gpuhier_net_rail_is_open(&net->rails[rail]) ? net->rails[rail].gpu : answer;
    }
    return answer;
}
