/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether UCX is given GPU memory: the answers of machines, what ranks make of each other's, and the packed keys in
 * which UCX shows what its NICs have registered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/coll_gpuhier_net.h"

/* Domains of UCX: 0 is tcp, 1 cuda_copy, 2 and 3 NICs, 4 gdr_copy. */
enum { NIC = 1 << 2, OTHER_NIC = 1 << 3, GDR_COPY = 1 << 4 };

static const struct {
    const char *machine;
    gpuhier_net_mode_t mode;
    gpuhier_net_gpu_facts_t facts;
    gpuhier_net_gpu_t expected;
} machines[] = {
    {"tcp, UCX without CUDA", GPUHIER_NET_AUTO, {.is_tcp = true}, GPUHIER_NET_GPU_TCP},
    {"tcp, cuda_copy", GPUHIER_NET_AUTO, {.is_tcp = true, .takes_cuda = true}, GPUHIER_NET_GPU_TCP},
    {"all devices, cuda_copy", GPUHIER_NET_AUTO, {.takes_cuda = true, .is_known = true}, GPUHIER_NET_GPU_TCP},
    {"NIC, UCX without CUDA", GPUHIER_NET_AUTO, {.has_rc = true}, GPUHIER_NET_GPU_NO_CUDA},
    {"NIC, cuda_copy alone",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .has_rc = true},
     GPUHIER_NET_GPU_NO_REGISTRATION},
    {"NIC, cuda_copy and gdr_copy",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .on_gpu = GDR_COPY, .has_rc = true},
     GPUHIER_NET_GPU_NO_REGISTRATION},
    {"NIC with peermem or dma-buf",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .on_gpu = NIC, .has_rc = true},
     GPUHIER_NET_GPU_YES},
    {"the same and gdr_copy",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .on_gpu = NIC | GDR_COPY, .has_rc = true},
     GPUHIER_NET_GPU_YES},
    {"two NICs, one of which has dma-buf",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC | OTHER_NIC, .on_gpu = OTHER_NIC, .has_rc = true},
     GPUHIER_NET_GPU_NO_REGISTRATION},
    {"NIC whose keys would have to be invalidated",
     GPUHIER_NET_AUTO,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .on_gpu = NIC},
     GPUHIER_NET_GPU_NO_RC},
    {"UCX that does not tell", GPUHIER_NET_AUTO, {.takes_cuda = true, .has_rc = true}, GPUHIER_NET_GPU_UNKNOWN},
    {"forced, cuda_copy", GPUHIER_NET_DIRECT, {.is_tcp = true, .takes_cuda = true}, GPUHIER_NET_GPU_FORCED},
    {"forced, UCX without CUDA", GPUHIER_NET_DIRECT, {.is_tcp = false}, GPUHIER_NET_GPU_NO_CUDA},
    {"staged, NIC with peermem",
     GPUHIER_NET_STAGED,
     {.takes_cuda = true, .is_known = true, .nics = NIC, .on_gpu = NIC, .has_rc = true},
     GPUHIER_NET_GPU_STAGED},
};

static void each_machine(void **state)
{
    (void) state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); ++i) {
        const gpuhier_net_gpu_t found = gpuhier_net_gpu_decide(machines[i].mode, &machines[i].facts);
        if (found != machines[i].expected) {
            print_error("%s: %s, expected %s\n", machines[i].machine, gpuhier_net_gpu_reason(found),
                        gpuhier_net_gpu_reason(machines[i].expected));
            ++wrong;
        }
    }
    assert_int_equal(wrong, 0);
}

/* What a rank makes of all answers, and whose it is. */
static gpuhier_net_gpu_t heard(const gpuhier_net_gpu_t *answers, int nranks, int me, int *rank_p)
{
    gpuhier_net_gpu_t answer = answers[me];
    *rank_p = me;
    for (int rank = 0; rank < nranks; ++rank) {
        if (gpuhier_net_gpu_hear(&answer, answers[rank])) {
            *rank_p = rank;
        }
    }
    return answer;
}

static void one_rank_of_many(void **state)
{
    (void) state;
    gpuhier_net_gpu_t answers[64];
    int who;
    for (int rank = 0; rank < 64; ++rank) {
        answers[rank] = GPUHIER_NET_GPU_YES;
    }
    for (int me = 0; me < 64; ++me) {
        assert_int_equal(heard(answers, 64, me, &who), GPUHIER_NET_GPU_YES);
        assert_int_equal(who, me);
    }
    answers[37] = GPUHIER_NET_GPU_NO_REGISTRATION;
    answers[50] = GPUHIER_NET_GPU_NO_FLUSH;
    for (int me = 0; me < 64; ++me) {
        const gpuhier_net_gpu_t answer = heard(answers, 64, me, &who);
        assert_false(gpuhier_net_gpu_is_yes(answer));
        assert_int_equal(answer, answers[50 == me ? 50 : 37]);
        assert_int_equal(who, 50 == me ? 50 : 37);
    }
    answers[5] = GPUHIER_NET_GPU_FORCED; /* it does as it is told, and makes no other rank do so */
    assert_int_equal(heard(answers, 64, 5, &who), GPUHIER_NET_GPU_FORCED);
    assert_int_equal(heard(answers, 64, 6, &who), GPUHIER_NET_GPU_NO_REGISTRATION);
    answers[37] = answers[50] = GPUHIER_NET_GPU_YES;
    assert_int_equal(heard(answers, 64, 6, &who), GPUHIER_NET_GPU_YES);
    answers[63] = GPUHIER_NET_GPU_STAGED;
    assert_int_equal(heard(answers, 64, 6, &who), GPUHIER_NET_GPU_STAGED);
    assert_int_equal(who, 63);
}

/* Every answer has a reason, and one that users can change says how. */
static void reasons(void **state)
{
    (void) state;
    for (int answer = 0; answer < GPUHIER_NET_GPU_COUNT; ++answer) {
        assert_true(strlen(gpuhier_net_gpu_reason((gpuhier_net_gpu_t) answer)) > 5);
        assert_non_null(gpuhier_net_gpu_remedy((gpuhier_net_gpu_t) answer));
    }
    assert_non_null(strstr(gpuhier_net_gpu_remedy(GPUHIER_NET_GPU_NO_REGISTRATION), "nvidia_peermem"));
    assert_non_null(strstr(gpuhier_net_gpu_remedy(GPUHIER_NET_GPU_NO_REGISTRATION), "dma-buf"));
}

/* Packs a key as UCX does: 8 bytes for each NIC and for gdr_copy, nothing for tcp and cuda_copy. */
static size_t key_pack(uint8_t *key, uint64_t domains, uint64_t with_key, size_t tail)
{
    size_t at = sizeof(domains);
    memcpy(key, &domains, sizeof(domains));
    key[at++] = 1; /* the type of memory */
    for (int domain = 0; domain < 64; ++domain) {
        const uint64_t bit = UINT64_C(1) << domain;
        if (0 != (domains & bit)) {
            key[at++] = 0 != (with_key & bit) ? 8 : 0;
            memset(&key[at], 0xff, 0 != (with_key & bit) ? 8 : 0);
            at += 0 != (with_key & bit) ? 8 : 0;
        }
    }
    memset(&key[at], 0xff, tail);
    return at + tail;
}

static void keys(void **state)
{
    (void) state;
    static const struct {
        uint64_t domains, with_key;
    } cases[] = {{0, 0},
                 {2, 0},
                 {3, 0},
                 {3 | NIC, NIC},
                 {3 | NIC | OTHER_NIC | GDR_COPY, NIC | OTHER_NIC | GDR_COPY},
                 {UINT64_C(1) << 63 | 1, UINT64_C(1) << 63},
                 {UINT64_MAX, UINT64_MAX},
                 {UINT64_MAX, UINT64_C(0x5555555555555555)}};
    uint8_t key[1024];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        for (size_t tail = 0; tail < 20; ++tail) { /* UCX 1.20 adds the GPU's number, and its distance of each NIC */
            uint64_t found = 4711;
            const size_t bytes = key_pack(key, cases[i].domains, cases[i].with_key, tail);
            assert_true(gpuhier_net_gpu_keys(key, bytes, &found));
            assert_true(cases[i].with_key == found);
        }
        const size_t whole = key_pack(key, cases[i].domains, cases[i].with_key, 0);
        for (size_t bytes = 0; bytes < whole; ++bytes) {
            uint64_t found = 4711;
            uint8_t *copy = test_malloc(bytes + 1); /* of its own, for a memory checker to see a read beyond it */
            memcpy(copy, key, bytes);
            assert_false(gpuhier_net_gpu_keys(copy, bytes, &found));
            assert_true(4711 == found);
            test_free(copy);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_machine), cmocka_unit_test(one_rank_of_many),
                                       cmocka_unit_test(reasons), cmocka_unit_test(keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
