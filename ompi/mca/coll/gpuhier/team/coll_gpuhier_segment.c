/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the shared memory file of a node's control block: makes, checks and ends it, and takes the locks by which ranks
 * show that they live. Does not know what the other words in it mean. Called by the team.
 */
#include "ompi_config.h"

#include "team/coll_gpuhier_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_limits.h"
#include "opal/util/proc.h"

#define SEGMENT_MAGIC 0x6770756869657231ull /* "gpuhier1" */

/* A life word. Written by its rank only. */
enum { LIFE_UNKNOWN, LIFE_LOCKED, LIFE_LEFT };

/* Fills in the sizes of a segment, which is not mapped yet. */
static gpuhier_segment_t segment_plan(const gpuhier_segment_args_t *args, int place)
{
    const size_t line = GPUHIER_CACHE_LINE, nranks = (size_t) args->nranks;
    const size_t area_bytes = (args->area_bytes + line - 1) / line * line;
    const size_t lives_bytes = (sizeof(gpuhier_word_t) * nranks + line - 1) / line * line;
    return (gpuhier_segment_t){.bytes = sizeof(gpuhier_segment_header_t) + lives_bytes
                                        + nranks * GPUHIER_SLOTS * (args->slot_bytes + area_bytes),
                               .lives_bytes = lives_bytes,
                               .slot_bytes = args->slot_bytes,
                               .area_bytes = area_bytes,
                               .nranks = args->nranks,
                               .place = place,
                               .locks = args->locks,
                               .watch = -1};
}

static gpuhier_word_t *life(const gpuhier_segment_t *segment, int place)
{
    return (gpuhier_word_t *) (segment->header + 1) + place;
}

static int segment_map(int file, gpuhier_segment_t *segment)
{
    void *memory = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (MAP_FAILED == memory) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    segment->header = memory;
    return OMPI_SUCCESS;
}

static struct flock lock_of(int place)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
}

/*
 * Opens the file once more, to look at the locks of other ranks. The open file with this rank's lock must keep no
 * descriptor, or a child of the process would inherit the lock. A program that has used up half of its descriptors
 * needs the rest itself.
 */
static int watch_open(const char *name)
{
    struct rlimit limit;
    int file = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0 && 0 == getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t) file >= limit.rlim_cur / 2) {
        close(file);
        file = -1;
    }
    return file;
}

/*
 * Takes this rank's lock, and opens the file for a look at the others'. The mapping holds the lock when file is closed.
 * A rank that fails here is taken for alive, and takes others for alive.
 */
static void locks_begin(gpuhier_segment_t *segment, int file, const char *name)
{
    struct flock lock = lock_of(segment->place);
    if (!segment->locks) {
        return;
    }
    if (0 == madvise(segment->header, segment->bytes, MADV_DONTFORK) && 0 == fcntl(file, F_OFD_SETLK, &lock)) {
        atomic_store_explicit(life(segment, segment->place), LIFE_LOCKED, memory_order_release);
    }
    segment->watch = watch_open(name);
}

bool gpuhier_segment_lives(const gpuhier_segment_t *segment, int place)
{
    struct flock lock = lock_of(place);
    return segment->watch < 0 || place == segment->place || 0 != fcntl(segment->watch, F_OFD_GETLK, &lock)
           || F_UNLCK != lock.l_type || LIFE_LOCKED != gpuhier_word_read(life(segment, place));
}

int gpuhier_segment_create(const gpuhier_segment_args_t *args, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SHM_NAME_BYTES];
    gpuhier_shm_name(name, "", args->word);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    gpuhier_segment_t segment = segment_plan(args, 0);
    int problem = file < 0 ? errno : gpuhier_shm_reserve(file, 0, (off_t) segment.bytes);
    int rc = 0 == problem ? segment_map(file, &segment) : OMPI_ERR_OUT_OF_RESOURCE;
    if (OMPI_SUCCESS != rc) {
        gpuhier_help("no shared memory", opal_process_info.nodename, segment.bytes,
                     strerror(0 != problem ? problem : ENOMEM));
        if (file >= 0) {
            shm_unlink(name);
        }
    } else {
        *segment.header = (gpuhier_segment_header_t){.magic = SEGMENT_MAGIC,
                                                     .version = GPUHIER_FORMAT_VERSION,
                                                     .nranks = (uint32_t) args->nranks,
                                                     .word = args->word,
                                                     .area_bytes = segment.area_bytes};
        locks_begin(&segment, file, name);
        *segment_p = segment;
    }
    if (file >= 0) {
        close(file);
    }
    return rc;
}

static bool header_is_right(const gpuhier_segment_t *segment, uint64_t word)
{
    const gpuhier_segment_header_t *header = segment->header;
    return SEGMENT_MAGIC == header->magic && GPUHIER_FORMAT_VERSION == header->version
           && (uint32_t) segment->nranks == header->nranks && word == header->word
           && segment->area_bytes == header->area_bytes;
}

int gpuhier_segment_attach(const gpuhier_segment_args_t *args, int place, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SHM_NAME_BYTES];
    gpuhier_shm_name(name, "", args->word);
    int file = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) {
        return OMPI_ERR_NOT_FOUND;
    }
    struct stat status;
    gpuhier_segment_t segment = segment_plan(args, place);
    int rc = 0 == fstat(file, &status) && (size_t) status.st_size == segment.bytes ? segment_map(file, &segment)
                                                                                   : OMPI_ERR_BAD_PARAM;
    if (OMPI_SUCCESS == rc && !header_is_right(&segment, args->word)) {
        munmap(segment.header, segment.bytes);
        rc = OMPI_ERR_BAD_PARAM;
    }
    if (OMPI_SUCCESS == rc) {
        locks_begin(&segment, file, name);
        *segment_p = segment;
    }
    close(file);
    return rc;
}

void gpuhier_segment_unlink(uint64_t word)
{
    char name[GPUHIER_SHM_NAME_BYTES];
    gpuhier_shm_name(name, "", word);
    shm_unlink(name);
}

void gpuhier_segment_detach(gpuhier_segment_t *segment)
{
    if (NULL != segment->header) {
        atomic_store_explicit(life(segment, segment->place), LIFE_LEFT, memory_order_release);
        if (segment->watch >= 0) {
            close(segment->watch);
        }
        munmap(segment->header, segment->bytes);
        segment->header = NULL;
    }
}
