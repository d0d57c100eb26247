# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py with the example's DeviceArray on emulated GPUs: every call is compared with what the host works out, and the
component's own counter tells that it was accelerated. Called by test/peers/mpi4py."""
import ctypes
import sys

sys.path.insert(0, sys.argv[1])
from device_array import MPI, DeviceArray, choose_gpu  # noqa: E402

COUNTS = (1, 7, 1000, 20011)
OPERATIONS = ((MPI.SUM, sum), (MPI.MAX, max), (MPI.MIN, min))

failures = 0
calls = 0


class Counter:
    """A performance variable of the MPI library, through MPI_T, which mpi4py does not have."""

    COUNTER_CLASS = 6  # MPI_T_PVAR_CLASS_COUNTER

    def __init__(self, name):
        self.mpi = ctypes.CDLL("libmpi.so.40")
        provided, index, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.session, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.mpi.MPI_T_init_thread(0, ctypes.byref(provided)))
        self.must(self.mpi.MPI_T_pvar_get_index(name, self.COUNTER_CLASS, ctypes.byref(index)))
        self.must(self.mpi.MPI_T_pvar_session_create(ctypes.byref(self.session)))
        self.must(self.mpi.MPI_T_pvar_handle_alloc(self.session, index, None, ctypes.byref(self.handle),
                                                   ctypes.byref(count)))

    @staticmethod
    def must(status):
        if status != 0:
            raise RuntimeError("MPI_T error %d: is the component loaded?" % status)

    def read(self):
        value = ctypes.c_ulonglong()
        self.must(self.mpi.MPI_T_pvar_read(self.session, self.handle, ctypes.byref(value)))
        return value.value


def contribution(rank, index, salt):
    """Small integers: exact in every type, and in any order of sums."""
    return (rank * 31 + index * 7 + salt) % 211 - 100


def blocking(comm, mine, total, op):
    comm.Allreduce(mine, total, op=op)


def in_place(comm, mine, total, op):
    total.write(mine.read())
    comm.Allreduce(MPI.IN_PLACE, total, op=op)


def described(comm, mine, total, op):
    """With the type named by the caller."""
    datatype = {"d": MPI.DOUBLE, "f": MPI.FLOAT, "i": MPI.INT}[mine.typecode]
    comm.Allreduce([mine, datatype], [total, mine.count, datatype], op=op)


def nonblocking(comm, mine, total, op):
    """Two at once, after a blocking call: the kind of path follows from blocking calls only."""
    comm.Allreduce(mine, total, op=op)
    other = DeviceArray(mine.typecode, [-1] * mine.count)
    requests = [comm.Iallreduce(mine, other, op=op)]
    total.write([-1] * total.count)
    requests.append(comm.Iallreduce(mine, total, op=op))
    MPI.Request.Waitall(requests)
    if other.read() != total.read():
        raise RuntimeError("two calls with the same input differ")


def expected_calls(call, mine):
    """Of up to 64 bytes a nonblocking call is left to Open MPI."""
    return 1 if call is not nonblocking or mine.bytes <= 64 else 3


def check(comm, accelerated, call, typecode, count, op, reference, salt):
    global failures, calls
    everybody = [[contribution(rank, i, salt) for i in range(count)] for rank in range(comm.size)]
    expected = [reference(values) for values in zip(*everybody)]
    mine = DeviceArray(typecode, everybody[comm.rank])
    total = DeviceArray(typecode, [-1] * count)
    before = accelerated.read()
    call(comm, mine, total, op)
    made = accelerated.read() - before
    calls += 1
    problem = None
    if total.read() != expected:
        problem = "wrong result"
    elif mine.read() != everybody[comm.rank]:
        problem = "the input changed"
    elif made != expected_calls(call, mine):
        problem = "it was not accelerated"
    if problem is not None:
        failures += 1
        print("mpi4py_test: rank %d: %s of %d x '%s': %s" % (comm.rank, call.__name__, count, typecode, problem),
              file=sys.stderr)


def main():
    comm = MPI.COMM_WORLD
    choose_gpu(comm)
    accelerated = Counter(b"coll_gpuhier_calls_accelerated")
    salt = 0
    for call in (blocking, in_place, described, nonblocking):
        for typecode in "dfi":
            for count in COUNTS:
                op, reference = OPERATIONS[salt % len(OPERATIONS)]
                salt += 1
                check(comm, accelerated, call, typecode, count, op, reference, salt)
    if comm.rank == 0:
        print("mpi4py: %d calls on %d ranks" % (calls, comm.size))
    sys.exit(1 if failures else 0)


main()
