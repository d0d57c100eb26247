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

/* When an option is set. */
typedef enum {
    ALWAYS,
    ON_TCP,      /* the device certainly means tcp */
    ON_BRIDGE,   /* it is also the interface of a bridge */
    IF_TCP,      /* it may mean tcp */
    IF_TCP_OPENS /* UCX will open tcp: it warns about an option that no transport takes */
} when_t;

/*
 * The options that gpuhier sets in each context. UCX applies UCX_<X> to contexts with their own prefix too, and a job's
 * UCX_TLS or UCX_NET_DEVICES is meant for Open MPI's own UCX. Therefore this table sets all options that choose
 * transports. GPUHIER_UCX_<X> in the environment overrides the table. Of two rows with one name the later one counts.
 */
typedef struct option {
    const char *name;
    const char *value;
    when_t when;
    bool is_of_tcp; /* tcp alone has it; its name has a prefix since UCX 1.17 */
} option_t;

static const option_t options[] = {
    /*
     * cuda_ipc would open handles of peer memory that gpuhier's cache has open, and a handle can be open only once.
     * Shared memory (sm) does not always report the death of a peer during a transfer (UCX 1.13, even with error
     * handling on), so groups of one node also talk through network devices.
     */
    {"TLS", "^cuda_ipc,sm", ALWAYS, false},
    {"NET_DEVICES", "all", ALWAYS, false},
    {"SHM_DEVICES", "all", ALWAYS, false},
    {"ACC_DEVICES", "all", ALWAYS, false},
    {"SELF_DEVICES", "all", ALWAYS, false},
    /* A UCX without CUDA does not know cuda_ipc, and must not warn about that. */
    {"WARN_INVALID_CONFIG", "n", ALWAYS, false},
    /* A larger payload waits at the sender until the receive is posted. On tcp the processor copies all payload, so a
     * rendezvous costs more than it saves up to a larger size. */
    {"RNDV_THRESH", "8256", ALWAYS, false},
    {"RNDV_THRESH", "65600", ON_TCP, false},
    /*
     * UCX's tcp (1.13 to 1.22) completes a partly sent zero-copy fragment twice when its peer dies, and then aborts
     * the process. The first option keeps active messages from zero copy. The rendezvous of UCX 1.18 and later ignores
     * it, and without the second one's rendezvous rndv/am/bcopy sends the same payload. Neither affects a rendezvous by
     * RDMA.
     */
    {"ZCOPY_THRESH", "inf", ALWAYS, false},
    {"PROTOS", "^rndv/am/zcopy", IF_TCP, false},
    /* The time after which UCX notices the death of a peer that breaks no connection. */
    {"KEEPALIVE_INTERVAL", "1s", ALWAYS, false},
    /* A rail is one device, and its messages do not leave it. A port may have several paths, as that of bonded RoCE
     * has, which carry parts of a rendezvous; a name that may mean tcp may mean several devices. */
    {"MAX_EAGER_RAILS", "1", ALWAYS, false},
    {"MAX_RNDV_RAILS", "1", IF_TCP, false},
    /* The buffer that tcp sends at once. Each send costs a system call, and the default is 8 KiB. */
    {"TX_SEG_SIZE", "64k", IF_TCP_OPENS, true},
    /* Otherwise connect() waits under the engine's lock, for minutes if an address leads nowhere. */
    {"CONN_NB", "y", IF_TCP_OPENS, true},
    /* UCX from 1.16 on passes over the interface of a bridge unless it is told not to. An older UCX uses it, and warns
     * about the option, as about all that it does not know. */
    {"BRIDGE_ENABLE", "y", ON_BRIDGE, true},
};

_Static_assert(65600 == GPUHIER_NET_TCP_EAGER_MAX && 8256 == GPUHIER_NET_EAGER_MAX, "as RNDV_THRESH in options[]");

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

static bool ucx_has_reached(unsigned minor_wanted)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    return major > 1 || minor >= minor_wanted;
}

/* Does the device certainly mean tcp? */
static bool is_tcp(const char *device)
{
    return NULL != device && 0 != if_nametoindex(device);
}

/* UCX itself recognizes a bridge by this folder. */
static bool is_bridge(const char *device)
{
    char path[GPUHIER_NET_DEVICE_MAX + 32];
    snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", device);
    return 0 == access(path, F_OK);
}

static bool holds(when_t when, const char *device)
{
    const bool if_tcp = NULL == device || is_tcp(device);
    switch (when) {
    case ON_TCP:
        return is_tcp(device);
    case ON_BRIDGE:
        return is_tcp(device) && is_bridge(device) && ucx_has_reached(16);
    case IF_TCP:
        return if_tcp;
    case IF_TCP_OPENS:
        return if_tcp && NULL == getenv(CONFIG_PREFIX "_UCX_TLS");
    default:
        return true;
    }
}

static ucs_status_t option_set(ucp_config_t *config, const option_t *option)
{
    char variable[64];
    snprintf(variable, sizeof(variable), CONFIG_PREFIX "_UCX_%s%s", option->is_of_tcp ? "TCP_" : "", option->name);
    if (NULL != getenv(variable)) {
        return UCS_OK;
    }
    snprintf(variable, sizeof(variable), "%s%s", option->is_of_tcp && ucx_has_reached(17) ? "TCP_" : "", option->name);
    return ucp_config_modify(config, variable, option->value);
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
        status = holds(options[i].when, device) ? option_set(config, &options[i]) : UCS_OK;
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

/* -- does the NIC of a rail reach GPU memory? ----------------------------------------------- */

/*
 * UCP offers no query for that: ucp_context_query() also counts cuda_copy. UCT has one, but promises no stable
 * interface. So UCX allocates a page of host memory and one of GPU memory, in the current CUDA context, and registers
 * them with all memory domains that take them. The packed keys show which domains did. A domain of NICs has a key for
 * host memory that is not empty. The keys of cuda_copy and tcp are empty, and gdr_copy has no key for host memory.
 */
#define PIECE_BYTES 4096

/* The memory domains that have a key for a piece of this type of memory. */
static ucs_status_t domains_find(ucp_context_h context, ucs_memory_type_t type, uint64_t *domains_p)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS
                                                       | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                         .length = PIECE_BYTES,
                                         .flags = UCP_MEM_MAP_ALLOCATE,
                                         .memory_type = type};
    ucp_mem_h piece;
    ucs_status_t status = ucp_mem_map(context, &params, &piece);
    if (UCS_OK != status) {
        return status;
    }
    void *key;
    size_t bytes;
    status = ucp_rkey_pack(context, piece, &key, &bytes);
    if (UCS_OK == status) {
        status = gpuhier_net_gpu_keys(key, bytes, domains_p) ? UCS_OK : UCS_ERR_UNSUPPORTED;
        ucp_rkey_buffer_release(key);
    }
    (void) ucp_mem_unmap(context, piece);
    return status;
}

/* Does what UCX prints of the context contain this? It names each transport with its device, "rc_mlx5/mlx5_0:1". */
static bool has_transport(ucp_context_h context, const char *part)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (NULL == stream) {
        return false;
    }
    ucp_context_print_info(context, stream);
    const bool found = 0 == fclose(stream) && NULL != strstr(text, part);
    free(text);
    return found;
}

/* Does the context have a transport for the network device? True also where UCX does not say what transports it has. */
static bool has_device(ucp_context_h context, const char *device)
{
    char line_end[GPUHIER_NET_DEVICE_MAX + 2];
    snprintf(line_end, sizeof(line_end), "/%s\n", device);
    return has_transport(context, line_end) || !has_transport(context, " resource ");
}

/* Finds out what is not known of a rail. */
static void facts_find(const gpuhier_net_rail_t *rail, gpuhier_net_gpu_facts_t *facts)
{
    if (facts->takes_cuda && !facts->is_tcp) {
        facts->is_known = UCS_OK == domains_find(rail->context, UCS_MEMORY_TYPE_HOST, &facts->nics);
    }
    if (facts->is_known && 0 != facts->nics) {
        if (UCS_OK != domains_find(rail->context, UCS_MEMORY_TYPE_CUDA, &facts->on_gpu)) {
            facts->on_gpu = 0;
        }
        facts->has_rc = has_transport(rail->context, " rc_");
    }
}

/* -- rails ---------------------------------------------------------------------------------- */

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
static int rail_open(gpuhier_net_rail_t *rail, const char *device, gpuhier_net_mode_t mode)
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
    if (UCS_OK == status && NULL != device && !has_device(rail->context, device)) {
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
    gpuhier_net_gpu_facts_t facts = {.is_tcp = rail->is_tcp,
                                     .takes_cuda = 0 != (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA))};
    if (GPUHIER_NET_AUTO == mode) {
        facts_find(rail, &facts);
    }
    rail->gpu = gpuhier_net_gpu_decide(mode, &facts);
    return OMPI_SUCCESS;
}

int gpuhier_net_open_rails(gpuhier_net_t *net, unsigned rails, const char **error_p)
{
    open_error[0] = '\0';
    *error_p = open_error;
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
        if (GPUHIER_NET_DIRECT == net->cuda_mode && !gpuhier_net_gpu_is_yes(rail->gpu)) {
            rail_close(rail);
            return fail(OMPI_ERR_NOT_SUPPORTED,
                        "direct transfers of CUDA memory were asked for, but this UCX (%s) has no CUDA support or "
                        "finds no CUDA device; install a UCX built with CUDA, or choose auto or staged",
                        ucp_get_version_string());
        }
    }
    return OMPI_SUCCESS;
}

int gpuhier_net_open(const char *const *devices, int nrails, unsigned rails, gpuhier_net_mode_t cuda_mode,
                     gpuhier_net_t **net_p, const char **error_p)
{
    *error_p = open_error;
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
    int rc = OMPI_SUCCESS;
    for (int i = 0; i < net->nrails && OMPI_SUCCESS == rc; ++i) {
        const char *device = net->has_devices ? devices[i] : "all";
        if (strlen(device) >= sizeof(net->rails[i].device)) {
            rc = fail(OMPI_ERR_NOT_FOUND, "there is no network device named %s", device);
        } else {
            memcpy(net->rails[i].device, device, strlen(device) + 1);
        }
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_net_open_rails(net, rails, error_p);
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

gpuhier_net_gpu_t gpuhier_net_gpu(const gpuhier_net_t *net)
{
    gpuhier_net_gpu_t answer = net->rails[0].gpu;
    for (int rail = 1; rail < net->nrails && gpuhier_net_gpu_is_yes(answer); ++rail) {
        answer = gpuhier_net_rail_is_open(&net->rails[rail]) ? net->rails[rail].gpu : answer;
    }
    return answer;
}
