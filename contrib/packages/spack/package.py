# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause

import os

from spack.package import *


class OpenmpiCollGpuhier(AutotoolsPackage, CudaPackage):
    """Hierarchical MPI_Allreduce on CUDA buffers: a collective component of Open MPI."""

    homepage = "https://gpuhier.example.org"
    url = "https://gpuhier.example.org/gpuhier-0.1.0.tar.gz"

    license("BSD-3-Clause")

    # The tarball of `make dist`. A site that mirrors it adds its checksum: spack checksum openmpi-coll-gpuhier
    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("openmpi@4.1:")
    depends_on("ucx@1.12:+cuda")
    depends_on("hwloc@2.1:")
    depends_on("cuda@11.8:")

    def configure_args(self):
        # --prefix alone keeps everything below it.
        return [f"--with-ompi={self.spec['openmpi'].prefix}", f"--with-cuda={self.spec['cuda'].prefix}"]

    def build(self, spec, prefix):
        make("product")

    def install(self, spec, prefix):
        make("install-product")

    def setup_run_environment(self, env):
        # This variable replaces Open MPI's own folders, which must be named, too.
        folders = [self.prefix.lib.openmpi, self.spec["openmpi"].prefix.lib.openmpi]
        env.set("OMPI_MCA_mca_base_component_path", os.pathsep.join(folders))

    def setup_dependent_run_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
