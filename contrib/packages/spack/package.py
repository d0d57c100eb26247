# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause

import os

from spack.package import *


class OpenmpiCollGpuhier(AutotoolsPackage, CudaPackage):
    """MPI collectives on CUDA buffers: a component of Open MPI."""

    homepage = "https://gpuhier.example.org"
    url = "https://gpuhier.example.org/gpuhier-0.3.0.tar.gz"

    license("BSD-3-Clause")

    # The tarball of `make dist`. A site that mirrors it adds its checksum: spack checksum openmpi-coll-gpuhier
    version("0.3.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    # Spack's Open MPI has no internal headers: contrib/ompi-headers makes them in the source of the same release. For
    # another release, add its checksum, which Spack's own recipe of Open MPI has.
    depends_on("openmpi@=4.1.6,=5.0.3,=5.0.7,=5.0.8")
    for _release, _sha256 in (
        ("4.1.6", "f740994485516deb63b5311af122c265179f5328a0d857a567b85db00b11e415"),
        ("5.0.3", "990582f206b3ab32e938aa31bbf07c639368e4405dca196fabe7f0f76eeda90b"),
        ("5.0.7", "119f2009936a403334d0df3c0d74d5595a32d99497f9b1d41e90019fee2fc2dd"),
        ("5.0.8", "53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449"),
    ):
        resource(
            name="openmpi",
            url=f"https://download.open-mpi.org/release/open-mpi/v{_release[:3]}/openmpi-{_release}.tar.bz2",
            sha256=_sha256,
            placement="openmpi",
            when=f"^openmpi@={_release}",
        )
    depends_on("ucx@1.12:+cuda")
    depends_on("hwloc@2.1:")
    depends_on("cuda@11.8:")

    @run_before("configure")
    def make_headers(self):
        Executable(join_path("contrib", "ompi-headers"))(self.spec["openmpi"].prefix, "openmpi")

    def configure_args(self):
        # --prefix alone keeps everything below it. Open MPI 5's internal headers include those of PMIx and libevent.
        names = [name for name in ("pmix", "libevent") if self.spec.satisfies(f"^{name}")]
        return [
            f"--with-ompi={self.spec['openmpi'].prefix}",
            f"--with-ompi-src={join_path(self.stage.source_path, 'openmpi')}",
            f"--with-cuda={self.spec['cuda'].prefix}",
            "CPPFLAGS=" + " ".join(self.spec[name].headers.include_flags for name in names),
        ]

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
