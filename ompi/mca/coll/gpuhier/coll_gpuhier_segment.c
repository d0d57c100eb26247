/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the shared memory file of a node's control block: its making, checking
 * and end. Does not know what the words in it mean. Called by the team.
 */
#include "ompi_config.h"

#include "coll_gpuhier_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll_gpuhier_component.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#define SEGMENT_MAGIC 0x6770756869657231ull /* "gpuhier1" */
#define SEGMENT_VERSION 1u

static size_t segment_bytes(int nranks)
{
    return sizeof(gpuhier_segment_header_t) + (size_t) nranks * GPUHIER_SLOTS * sizeof(gpuhier_slot_t);
}

void gpuhier_segment_name(uint64_t word, char name[GPUHIER_SEGMENT_NAME_BYTES])
{
    snprintf(name, GPUHIER_SEGMENT_NAME_BYTES, "/gpuhier-%016" PRIx64, word);
}

static int segment_map(int file, int nranks, gpuhier_segment_t *segment_p)
{
    size_t bytes = segment_bytes(nranks);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (MAP_FAILED == memory) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *segment_p = (gpuhier_segment_t){memory, bytes, nranks};
    return OMPI_SUCCESS;
}

int gpuhier_segment_create(uint64_t word, int nranks, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SEGMENT_NAME_BYTES];
    gpuhier_segment_name(word, name);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int problem = file < 0 ? errno : posix_fallocate(file, 0, (off_t) segment_bytes(nranks));
    int rc = 0 == problem ? segment_map(file, nranks, segment_p) : OMPI_ERR_OUT_OF_RESOURCE;
    if (OMPI_SUCCESS != rc) {
        opal_show_help("help-coll-gpuhier.txt", "no shared memory", true, ompi_process_info.nodename, segment_bytes(nranks),
                       strerror(0 != problem ? problem : ENOMEM));
        if (file >= 0) {
            shm_unlink(name);
        }
    } else {
        *segment_p->header = (gpuhier_segment_header_t){.magic = SEGMENT_MAGIC, .version = SEGMENT_VERSION, .nranks = (uint32_t) nranks, .word = word};
    }
    if (file >= 0) {
        close(file);
    }
    return rc;
}

int gpuhier_segment_attach(uint64_t word, int nranks, gpuhier_segment_t *segment_p)
{
    char name[GPUHIER_SEGMENT_NAME_BYTES];
    gpuhier_segment_name(word, name);
    int file = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) {
        return OMPI_ERR_NOT_FOUND;
    }
    struct stat status;
    gpuhier_segment_t segment;
    int rc = 0 == fstat(file, &status) && (size_t) status.st_size == segment_bytes(nranks) ? segment_map(file, nranks, &segment)
                                                                                           : OMPI_ERR_BAD_PARAM;
    close(file);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    const gpuhier_segment_header_t *header = segment.header;
    if (SEGMENT_MAGIC != header->magic || SEGMENT_VERSION != header->version || (uint32_t) nranks != header->nranks
        || word != header->word) {
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
