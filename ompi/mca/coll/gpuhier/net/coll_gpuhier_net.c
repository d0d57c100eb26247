/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The net itself: opening UCX for each rail, progress, closing.
 *
 * It does not know peers (coll_gpuhier_net_peer.c) nor operations
 * (coll_gpuhier_net_op.c) beyond asking those files to end them.
 *
 * How it works: UCX chooses network devices per context, so each rail has a
 * context with NET_DEVICES set to one device, and one worker. The contexts read
 * their configuration under a prefix of ours; see options[] for what is set and
 * how a user overrides it. Whether CUDA memory may be handed to UCX is what the
 * contexts answer at run time: the library found may not be the one built with.
 *
 * Called by the engine through coll_gpuhier_net.h.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net_internal.h"

#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ompi/constants.h"

#define CONFIG_PREFIX "GPUHIER"
/* Close lets connections that others are just making come to rest: this long without an event, in milliseconds. */
#define QUIET_MS 5
/* Rounds of one rail's worker in one call of progress: enough to drain a burst, a bound for the caller's lock. */
#define PROGRESS_ROUNDS 16
/* A rail on which nothing is under way is looked at every so many calls: a look costs system calls. */
#define IDLE_RAIL_EVERY 16

/*
 * What gpuhier sets in every context. UCX applies UCX_<X> to contexts with a
 * prefix of their own as well, and a job's UCX_TLS or UCX_NET_DEVICES is meant
 * for Open MPI's own UCX: so all options that choose transports are set here
 * explicitly. GPUHIER_UCX_<X> in the environment wins over this table.
 */
static const struct {
    const char *name;
    const char *value;
} options[] = {
    /*
     * cuda_ipc would open handles of peer memory beside our own cache, and a handle can be open only once. Shared
     * memory (sm) does not always tell when a peer dies during a transfer (UCX 1.13, also with error handling asked
     * of it), so groups of one node talk through its network devices, too.
     */
    {"TLS", "^cuda_ipc,sm"},
    {"NET_DEVICES", "all"},
    {"SHM_DEVICES", "all"},
    {"ACC_DEVICES", "all"},
    {"SELF_DEVICES", "all"},
    /* The list above names a transport that a UCX without CUDA does not have; that is no mistake to warn of. */
    {"WARN_INVALID_CONFIG", "n"},
    /* Payload above this waits at the sender until the receive is posted. Must equal GPUHIER_NET_EAGER_MAX. */
    {"RNDV_THRESH", "8256"},
    /*
     * UCX's tcp (1.13 to 1.20) completes a partly sent zero-copy fragment twice when its peer dies, and then aborts
     * the process. This option means active messages only: rendezvous by RDMA is as direct as ever.
     */
    {"ZCOPY_THRESH", "inf"},
    /* How soon the death of a peer is noticed where no connection breaks with it. */
    {"KEEPALIVE_INTERVAL", "1s"},
    /* A rail is one device: splitting one message over lanes would leave it. */
    {"MAX_EAGER_RAILS", "1"},
    {"MAX_RNDV_RAILS", "1"},
};

_Static_assert(65600 == GPUHIER_NET_TCP_EAGER_MAX, "RNDV_THRESH in context_init() is the same number");
_Static_assert(8256 == GPUHIER_NET_EAGER_MAX, "RNDV_THRESH in options[] is the same number");

/* The text of open's last error: one per thread, so that no caller has to free it. */
static _Thread_local char open_error[256];

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(open_error, sizeof(open_error), format, args);
    va_end(args);
    return code;
}

/* Does the machine have the device, "eth0" or "mlx5_0:1"? UCX would go on with what else there is, and say nothing. */
static bool device_exists(const char *device)
{
    char base[GPUHIER_NET_DEVICE_MAX];
    char path[GPUHIER_NET_DEVICE_MAX + 32];

    snprintf(base, sizeof(base), "%.*s", (int) strcspn(device, ":"), device);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s", base);
    return 0 != if_nametoindex(base) || 0 == access(path, F_OK);
}

static ucs_status_t config_set(ucp_config_t *config, const char *name, const char *value)
{
    char variable[64];

    snprintf(variable, sizeof(variable), CONFIG_PREFIX "_UCX_%s", name);
    return (NULL != getenv(variable)) ? UCS_OK : ucp_config_modify(config, name, value);
}

/*
 * Options of tcp alone, where tcp will be opened: UCX warns of an option that no
 * transport took. Its name lost its prefix before 1.17.
 */
static ucs_status_t config_set_tcp(ucp_config_t *config, const char *device)
{
    unsigned major;
    unsigned minor;
    unsigned release;

    if (NULL != getenv(CONFIG_PREFIX "_UCX_TLS") || NULL != getenv(CONFIG_PREFIX "_UCX_TCP_TX_SEG_SIZE")
        || (NULL != device && 0 == if_nametoindex(device))) {
        return UCS_OK;
    }
    ucp_get_version(&major, &minor, &release);
    /* What tcp copies into and sends at once; each send costs a system call, and the default is 8 KiB. */
    return ucp_config_modify(config, (major > 1 || minor >= 17) ? "TCP_TX_SEG_SIZE" : "TX_SEG_SIZE", "64k");
}

/* Certainly tcp, and nothing else? */
static bool is_tcp(const char *device)
{
    return NULL != device && 0 != if_nametoindex(device);
}

/* A context configured for one device, or for all when device is NULL. */
static ucs_status_t context_init(const char *device, ucp_context_h *context_p)
{
    ucp_params_t params = {0};
    ucp_config_t *config;
    ucs_status_t status;
    size_t i;

    status = ucp_config_read(CONFIG_PREFIX, NULL, &config);
    if (UCS_OK != status) {
        return status;
    }
    for (i = 0; i < sizeof(options) / sizeof(options[0]) && UCS_OK == status; ++i) {
        status = config_set(config, options[i].name, options[i].value);
    }
    if (UCS_OK == status && is_tcp(device)) {
        /* Here a rendezvous costs more than it saves: nothing is sent without the processor, from GPU memory neither.
         */
        status = config_set(config, "RNDV_THRESH", "65600");
    }
    if (UCS_OK == status) {
        status = config_set_tcp(config, device);
    }
    if (UCS_OK == status && NULL != device) {
        status = ucp_config_modify(config, "NET_DEVICES", device);
    }
    if (UCS_OK == status) {
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
        params.features = UCP_FEATURE_TAG;
        params.mt_workers_shared = 0;
        params.name = "gpuhier";
        status = ucp_init(&params, config, context_p);
    }
    ucp_config_release(config);
    return status;
}

static void rail_close(gpuhier_net_rail_t *rail)
{
    if (NULL != rail->address) {
        ucp_worker_release_address(rail->worker, rail->address);
    }
    if (NULL != rail->worker) {
        ucp_worker_destroy(rail->worker);
    }
    if (NULL != rail->context) {
        ucp_cleanup(rail->context);
    }
    memset(rail, 0, sizeof(*rail));
}

/* Open one rail; cuda_p tells whether its context takes CUDA memory. */
static int rail_open(gpuhier_net_rail_t *rail, const char *device, bool *cuda_p)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    const char *step = "ucp_init";
    ucs_status_t status;

    snprintf(rail->device, sizeof(rail->device), "%s", (NULL == device) ? "all" : device);
    if (NULL != device && (strlen(device) >= sizeof(rail->device) || !device_exists(device))) {
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
             "%s on network device %s failed: %s; look at variables named " CONFIG_PREFIX "_UCX_*, or run "
             "with UCX_LOG_LEVEL=info",
             step, rail->device, ucs_status_string(status));
        rail_close(rail);
        return gpuhier_net_code(status);
    }
    rail->is_tcp = is_tcp(device);
    *cuda_p = 0 != (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    return OMPI_SUCCESS;
}

int gpuhier_net_open(const char *const *devices, int nrails, gpuhier_net_cuda_mode_t cuda_mode, gpuhier_net_t **net_p,
                     const char **error_p)
{
    int count = (0 == nrails) ? 1 : nrails;
    gpuhier_net_t *net;
    bool can_cuda = true;
    bool cuda;
    int rc;

    open_error[0] = '\0';
    if (NULL != error_p) {
        *error_p = open_error;
    }
    if (nrails < 0 || nrails > GPUHIER_RAILS_MAX || (nrails > 0 && NULL == devices)) {
        return fail(OMPI_ERR_BAD_PARAM, "%d rails asked for; use 0 to %d", nrails, GPUHIER_RAILS_MAX);
    }
    net = calloc(1, sizeof(*net));
    if (NULL == net) {
        return fail(OMPI_ERR_OUT_OF_RESOURCE, "out of memory");
    }
    while (net->nrails < count) {
        rc = rail_open(&net->rails[net->nrails], (0 == nrails) ? NULL : devices[net->nrails], &cuda);
        if (OMPI_SUCCESS != rc) {
            goto close_rails;
        }
        can_cuda = can_cuda && cuda;
        net->nrails++;
    }
    if (GPUHIER_NET_CUDA_DIRECT == cuda_mode && !can_cuda) {
        rc = fail(OMPI_ERR_NOT_SUPPORTED,
                  "direct transfers of CUDA memory were asked for, but this UCX (%s) has no CUDA support or finds no "
                  "CUDA device; install a UCX built with CUDA, or choose auto or staged",
                  ucp_get_version_string());
        goto close_rails;
    }
    rc = gpuhier_net_blob_build(net);
    if (OMPI_SUCCESS != rc) {
        fail(rc, "out of memory");
        goto close_rails;
    }
    net->can_cuda = can_cuda && GPUHIER_NET_CUDA_STAGED != cuda_mode;
    *net_p = net;
    return OMPI_SUCCESS;

close_rails:
    while (net->nrails > 0) {
        rail_close(&net->rails[--net->nrails]);
    }
    free(net);
    return rc;
}

int gpuhier_net_progress(gpuhier_net_t *net)
{
    int events = 0;
    int rail;
    int round;

    ++net->rounds;
    for (rail = 0; rail < net->nrails; ++rail) {
        if (0 == net->rails[rail].pending && 0 == net->rails[rail].warm && 0 != net->rounds % IDLE_RAIL_EVERY) {
            continue;
        }
        net->rails[rail].warm -= net->rails[rail].warm > 0 ? 1 : 0;
        for (round = 0; round < PROGRESS_ROUNDS; ++round) {
            unsigned done = ucp_worker_progress(net->rails[rail].worker);

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

/* Let what was sent leave this process, as long as that makes progress. */
static void drain(gpuhier_net_t *net)
{
    ucp_request_param_t param = {0};
    uint64_t deadline = gpuhier_clock_ms() + GPUHIER_NET_DRAIN_MS;
    ucs_status_ptr_t flushes[GPUHIER_RAILS_MAX];
    int rail;

    for (rail = 0; rail < net->nrails; ++rail) {
        flushes[rail] = ucp_worker_flush_nbx(net->rails[rail].worker, &param);
    }
    for (rail = 0; rail < net->nrails; ++rail) {
        if (!UCS_PTR_IS_PTR(flushes[rail])) {
            continue;
        }
        while (UCS_INPROGRESS == ucp_request_check_status(flushes[rail]) && gpuhier_clock_ms() < deadline) {
            gpuhier_net_progress(net);
        }
        ucp_request_free(flushes[rail]);
    }
}

/* Destroying a worker that has answers to a connection request queued makes UCX 1.13 abort. */
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
    int rail;

    if (NULL == net) {
        return;
    }
    net->error_handler = NULL;
    drain(net);
    settle(net);
    gpuhier_net_connections_close(net);
    uint64_t deadline = gpuhier_clock_ms() + GPUHIER_NET_DRAIN_MS;
    while (0 != net->pending && gpuhier_clock_ms() < deadline) {
        gpuhier_net_progress(net);
    }
    for (rail = 0; rail < net->nrails; ++rail) {
        rail_close(&net->rails[rail]);
    }
    /* No worker is left that could touch what is still pending. */
    gpuhier_net_connections_free(net);
    free(net->blob);
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
    return net->can_cuda;
}
