/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams and events: queues of work, and when the work is done.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim_context.h"
#include "sim_window.h"

#define SIM_STREAM_MAGIC 0x73747231u
#define SIM_EVENT_MAGIC 0x65766e31u
#define SIM_DEPS_INLINE 4
#define SIM_ENDS 64

enum sim_mode {
    SIM_EAGER,  /* work is done by the thread that submits it, at once */
    SIM_THREAD, /* by a thread per stream, after seeded random delays, or by a thread that waits for it */
    SIM_LAZY    /* by a thread that waits for it; see sim_engine.c */
};

/*
 * A stream. The engine's lock guards everything but completed, which any thread may
 * read: work number n of the stream is done when completed >= n. Never given back
 * to malloc; magic tells a destroyed one.
 */
struct CUstream_st {
    uint32_t magic;
    CUcontext ctx;
    unsigned flags;
    int priority;
    bool blocking;  /* ordered with the legacy default stream */
    bool destroyed; /* by the program; goes when its work is done */
    bool busy;      /* an item is being executed */
    bool has_worker;
    bool asleep;           /* the worker is, until it is woken */
    bool threaded;         /* its worker does the work that it has now, whatever the mode: a kernel in it waits */
    struct sim_item *left; /* the kernel that is being executed, and that no thread may be at: it waits */
    bool resumed;          /* a thread is at it */
    uint64_t id;
    uint64_t thread; /* 0, or the thread whose per-thread default stream it is */
    uint64_t submitted;
    _Atomic uint64_t completed;
    _Atomic uint64_t ends[SIM_ENDS]; /* model: when the last pieces of work ended, by number modulo SIM_ENDS */
    unsigned queries;                /* consecutive ones that were answered NOT_READY */
    uint64_t random;
    struct sim_item *head, *tail;
    pthread_cond_t work; /* for the worker: something was queued */
    pthread_cond_t done; /* completed or busy changed */
    uint64_t kicked;     /* lazy mode: work up to this number is to be done soon */
    CUstream next;       /* in the context's list, or the free list */
    CUstream all_next;   /* in the list of all streams ever made */
};

/*
 * An event. The engine's lock guards it. It refers to work number seq of a
 * stream; an interprocess event lives in a slot that its importers share.
 */
struct CUevent_st {
    uint32_t magic;
    CUcontext ctx;
    unsigned flags;
    bool imported;
    bool destroyed;
    unsigned pending; /* records queued and not yet executed */
    CUstream stream;  /* of the last record; NULL: never recorded */
    uint64_t seq;
    uint64_t time_seq; /* which record time_ns belongs to */
    CUstream time_stream;
    uint64_t time_ns;
    struct sim_shared_event *slot; /* NULL unless interprocess */
    uint64_t slot_id;
    void *slot_map;   /* imported: the mapping that the slot lies in */
    CUevent next;     /* in the free list */
    CUevent all_next; /* in the list of all events ever made: what a program forgets is no leak of ours */
};

struct sim_dep {
    CUstream stream;
    uint64_t seq;
};

struct sim_item;
struct sim_fiber;

/* Executes an item's work; runs without locks, on any thread. Its payload follows the item. */
typedef void (*sim_run_fn_t)(struct sim_item *item);

/* A piece of work in a queue. Owned by the engine from submission on. */
struct sim_item {
    struct sim_item *next;
    CUstream stream;
    uint64_t seq;
    uint64_t queued_ns;
    sim_run_fn_t run;
    bool is_kernel;          /* model: it follows other work after a gap */
    bool is_mark;            /* model: an event or a wait, which does nothing that could be late */
    const char *name;        /* model: in the timeline */
    uint64_t ready_ns;       /* model: when the GPU has got it */
    uint64_t start_ns;       /* model: when its work starts, and.. */
    uint64_t end_ns;         /* ..ends; run() moves it */
    bool waits;              /* may wait for the host or for other work: the submission does not wait for its end */
    struct sim_fiber *fiber; /* its kernel's, if threads may take turns at it */
    _Atomic uint64_t *word;  /* parked: what it waits for, which was.. NULL: something unknown */
    uint32_t seen;           /* ..this */
    unsigned ndeps;
    unsigned deps_room;
    struct sim_dep deps_inline[SIM_DEPS_INLINE];
    struct sim_dep *deps;          /* deps_inline, or from malloc */
    struct sim_shared_event *slot; /* wait for this interprocess event.. */
    uint64_t slot_value;           /* ..to complete that record */
    size_t payload_bytes;
    _Alignas(16) unsigned char payload[];
};

/* Reads CUDASIM_ASYNC, CUDASIM_SEED, CUDASIM_MAX_DELAY_US, CUDASIM_LAZY_MS. Returns 0, or -1 after a message. */
int sim_engine_setup(void);
enum sim_mode sim_engine_mode(void);

uint64_t sim_engine_seed(void);

void sim_engine_lock(void);
void sim_engine_unlock(void);

/* Streams. The handle may be NULL, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD; the stream is made on first use. */
CUresult sim_stream_resolve(CUstream handle, CUstream *stream_p);
CUstream sim_stream_new(CUcontext ctx, unsigned flags, int priority);
void sim_stream_destroy(CUstream stream);

/* Under the lock: all streams ever made, linked by all_next; takes a finished one out of its context; reuses one. */
extern CUstream sim_all_streams;
void sim_stream_retire(CUstream stream);
void sim_stream_reuse(CUstream stream);

/* Ends all streams of a context that is no more; its work is done. */
void sim_streams_context_clear(CUcontext ctx);

/* A new item with room for its payload; hand it to submit, which takes it over and returns its number. */
struct sim_item *sim_item_new(sim_run_fn_t run, size_t payload_bytes);
uint64_t sim_submit(CUstream stream, struct sim_item *item);
void sim_submit_and_wait(CUstream stream, struct sim_item *item);
void sim_item_drop(struct sim_item *item); /* one that was not submitted */
void sim_item_free(struct sim_item *item); /* under the lock: one that was executed */

/* Ends the process after a message if memory is NULL. */
void *sim_must(void *memory);

/* Under the lock: the item is to follow that work; and submit for a caller that holds the lock. */
void sim_item_depend(struct sim_item *item, CUstream stream, uint64_t seq);

uint64_t sim_submit_locked(CUstream stream, struct sim_item *item);

/* A turn of a kernel that waits (it calls this itself): until a word of memory that other processes may share has
 * another upper half than was seen, or, if word is NULL, for the host. Returns early at times. The word's lower half
 * may be lost. */
void sim_item_wait(struct sim_item *item, _Atomic uint64_t *word, uint32_t seen);

/* Stores a word, at a multiple of its size; true: a kernel sleeps until that, and is to be woken. */
bool sim_word_push(void *to, uint64_t word);
void sim_word_wake(void *to);

/* A turn of each kernel that waits without a thread. */
void sim_kernels_turn(void);

/* Model: when work number seq, one of the last SIM_ENDS, ended. */
static inline uint64_t sim_stream_end(CUstream stream, uint64_t seq)
{
    return atomic_load_explicit(&stream->ends[seq % SIM_ENDS], memory_order_relaxed);
}

/* Waits until work number seq of the stream is done; do not hold the lock. */
void sim_stream_wait(CUstream stream, uint64_t seq);
bool sim_stream_done(CUstream stream, uint64_t seq);

/* Waits for all work submitted so far: of a stream, a context, or all contexts on a GPU (physical number). */
void sim_stream_drain(CUstream stream);
void sim_context_drain(CUcontext ctx);
void sim_device_drain(int physical);

/* Lazy mode: asked again for work that is not done, executes it. Returns whether it did. */
bool sim_stream_ask(CUstream stream, uint64_t seq);

/* Reads CUDASIM_LEGACY_QUERY. Returns 0, or -1 after a message. */
int sim_query_setup(void);

/* Whether work up to number seq, or all, is done; in lazy mode, asking again makes progress. */
bool sim_stream_poll(CUstream stream, uint64_t seq);
bool sim_stream_query(CUstream stream);

/* The same of the legacy default stream, and, by CUDASIM_LEGACY_QUERY, of the blocking streams of its context. */
bool sim_stream_query_all(CUstream legacy);

/* Lazy mode: work up to number seq is to be done soon without being waited for here. */
void sim_stream_kick(CUstream stream, uint64_t seq);

/* Events. */
CUevent sim_event_new(CUcontext ctx, unsigned flags);
void sim_event_destroy(CUevent event);
CUresult sim_event_check(CUevent event);

/* Ends all events of a context that is no more; its work is done. */
void sim_events_context_clear(CUcontext ctx);
void sim_event_record(CUevent event, CUstream stream);
void sim_event_wait_on_stream(CUstream stream, CUevent event);
bool sim_event_query(CUevent event);
void sim_event_synchronize(CUevent event);

/* Whether that record of an interprocess event is still to come; not from a process that has died. */
bool sim_event_slot_open(struct sim_shared_event *slot, uint64_t value);

uint64_t sim_now_ns(void);

#endif /* SIM_ENGINE_H */
