/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the shared memory file of a node's control block: its making, checking
 * and end. Does not know what the words in it mean. Called by the team.
 */
#include "ompi_config.h"

#include "team/coll_gpuhier_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_limits.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#define SEGMENT_MAGIC 0x6770756869657231ull /* "gpuhier1" */

/* The view of a segment that is not mapped yet: its sizes. */
static gpuhier_segment_t segment_plan(int nranks, size_t small_bytes)
{
    const size_t line = GPUHIER_CACHE_LINE;
    const size_t area_bytes = 0 == small_bytes ? 0 : (sizeof(gpuhier_area_t) + small_bytes + line - 1) / line * line;
    const size_t bytes =
        sizeof(gpuhier_segment_header_t) + (size_t) nranks * GPUHIER_SLOTS * (sizeof(gpuhier_slot_t) + area_bytes);
    return (gpuhier_segment_t){NULL, bytes, area_bytes, nranks};
}

void gpuhier_segment_name(uint64_t word, char name[GPUHIER_SEGMENT_NAME_BYTES])
{
    snprintf(name, GPUHIER_SEGMENT_NAME_BYTES, "/gpuhier-%016" PRIx64, word);
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

int gpuhier_segment_create(uint64_t word, int nranks, size_t small_bytes, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SEGMENT_NAME_BYTES];
    gpuhier_segment_name(word, name);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    gpuhier_segment_t segment = segment_plan(nranks, small_bytes);
    int problem = file < 0 ? errno : posix_fallocate(file, 0, (off_t) segment.bytes);
    int rc = 0 == problem ? segment_map(file, &segment) : OMPI_ERR_OUT_OF_RESOURCE;
    if (OMPI_SUCCESS != rc) {
        opal_show_help("help-coll-gpuhier.txt", "no shared memory", true, ompi_process_info.nodename, segment.bytes,
                       strerror(0 != problem ? problem : ENOMEM));
        if (file >= 0) {
            shm_unlink(name);
        }
    } else {
        *segment.header = (gpuhier_segment_header_t){.magic = SEGMENT_MAGIC,
                                                     .version = GPUHIER_FORMAT_VERSION,
                                                     .nranks = (uint32_t) nranks,
                                                     .word = word,
                                                     .area_bytes = segment.area_bytes};
        *segment_p = segment;
    }
    if (file >= 0) {
        close(file);
    }
    return rc;
}

int gpuhier_segment_attach(uint64_t word, int nranks, size_t small_bytes, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SEGMENT_NAME_BYTES];
    gpuhier_segment_name(word, name);
    int file = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) {
        return OMPI_ERR_NOT_FOUND;
    }
    struct stat status;
    gpuhier_segment_t segment = segment_plan(nranks, small_bytes);
    int rc = 0 == fstat(file, &status) && (size_t) status.st_size == segment.bytes ? segment_map(file, &segment)
                                                                                   : OMPI_ERR_BAD_PARAM;
    close(file);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    const gpuhier_segment_header_t *header = segment.header;
    if (SEGMENT_MAGIC != header->magic || GPUHIER_FORMAT_VERSION != header->version
        || (uint32_t) nranks != header->nranks || word != header->word || segment.area_bytes != header->area_bytes) {
        gpuhier_segment_detach(&segment);
        return OMPI_ERR_BAD_PARAM;
    }
    *segment_p = segment;
    return OMPI_SUCCESS;
}

void gpuhier_segment_unlink(uint64_t word)
{
    char name[GPUHIER_SEGMENT_NAME_BYTES];
    gpuhier_segment_name(word, name);
    shm_unlink(name);
}

void gpuhier_segment_detach(gpuhier_segment_t *segment)
{
    if (NULL != segment->header) {
        munmap(segment->header, segment->bytes);
        segment->header = NULL;
    }
}
