/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Breaks chosen CUDA driver calls of the component, and of nothing else in the process.
 *
 * A preloaded library that stands between the component and the driver. CUDASIM_FAIL counts the
 * program's own calls, too; this counts the component's only, can be aimed at run time, and
 * does other harm than returning errors. It works on a real driver as well.
 *
 * A plan is a list of FUNCTION:COUNT:ACTION, separated by commas. FUNCTION is named as in cuda.h
 * without a version; COUNT is which call since the plan was made, "*" for each, "3+" from the
 * third on. ACTION is one of
 *     a number   return that CUresult without calling the driver
 *     lie        return CUDA_SUCCESS without calling the driver
 *     kill       the process kills itself with SIGKILL
 *     stop=S     the process stops itself with SIGSTOP; a helper wakes it after S seconds
 *     stop       the same without a helper: another process must wake it
 *     alias      of cuIpcOpenMemHandle: opens nothing, returns the address that the call before got
 *
 * Plans come from the environment (GPUHIER_SABOTAGE, only in the rank named by
 * GPUHIER_SABOTAGE_RANK if that is set), or from saboteur_arm().
 */
#ifndef GPUHIER_TEST_SABOTEUR_H
#define GPUHIER_TEST_SABOTEUR_H

/*
 * Makes a new plan ("" for none) and starts counting anew. Returns 0, or -1 for a plan that cannot be
 * understood, after a message. Found with dlsym: the library is preloaded, not linked.
 */
int saboteur_arm(const char *plan);
typedef int (*saboteur_arm_fn_t)(const char *plan);

/* The component's calls of a function since the last plan was made; -1 for a function that it does not know. */
long saboteur_calls(const char *function);
typedef long (*saboteur_calls_fn_t)(const char *function);

/* How often a step of the plan was carried out since it was made. */
long saboteur_strikes(void);
typedef long (*saboteur_strikes_fn_t)(void);

/* Name of the function number i that can be broken, NULL past the last. */
const char *saboteur_function(int i);
typedef const char *(*saboteur_function_fn_t)(int i);

#endif /* GPUHIER_TEST_SABOTEUR_H */
