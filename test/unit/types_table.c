/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints the table of docs/types.md: for every predefined type and operation whether the component has a
 * kernel, or stages, or Open MPI refuses the pair. Asks the component's own table and MPI_Reduce_local.
 * One process (a singleton), no GPU. Called by types_table.sh.
 */
#include "../ranks/values.h"
#include "gpu/coll_gpuhier_reduce.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void print_row(const value_type_t *type)
{
    printf("| %s |", type->mpi_name + (0 == strncmp("MPI_", type->mpi_name, 4) ? 4 : 0));
    for (int o = 0; o < value_nops; ++o) {
        const bool on_gpu = gpuhier_reduce_find(value_ops[o].op, type->type, NULL) >= 0;
        printf(" %s |", !value_is_accepted(type, value_ops[o].op) ? "-" : on_gpu ? "GPU" : "staged");
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    printf("| type |");
    for (int o = 0; o < value_nops; ++o) {
        printf(" ");
        for (const char *letter = value_ops[o].name; '\0' != *letter; ++letter) {
            putchar(toupper((unsigned char) *letter));
        }
        printf(" |");
    }
    printf("\n|---|");
    for (int o = 0; o < value_nops; ++o) {
        printf("---|");
    }
    printf("\n");
    for (int t = 0; t < value_ntypes; ++t) {
        print_row(&value_types[t]);
    }
    for (int t = 0; t < value_nrefused; ++t) {
        print_row(&value_refused[t]);
    }
    MPI_Finalize();
    return 0;
}
