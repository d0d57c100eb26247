# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What the build-* scripts of this folder share: a cache of foreign packages
# ("peers") that tests run against, kept outside the checkout in
# ${XDG_CACHE_HOME:-$HOME/.cache}/gpuhier.
#
# Each peer is one prefix there, complete or absent: it is built and installed
# in a scratch folder beside it and moved into place by one rename. The file
# PREFIX/.gpuhier-peer holds the recipe that made it and the size of every
# installed file, so that an outdated, truncated or moved prefix is noticed
# and built again. One lock per peer keeps parallel runs apart.
#
# To be sourced by bash. The caller defines, before peer_main:
#   peer_name       name of the peer and of its prefix
#   peer_recipe     text that changes whenever the result would
#   peer_space_mib  free space that the build needs
#   peer_build      function: build in $peer_work, install below $peer_stage
#                   (as DESTDIR) for the prefix $peer_prefix
# Exit status: 0 done, 77 not possible here (no network, package or space is
# missing; the message says which), anything else: the build itself broke.

peer_skip=77
peer_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/gpuhier
# Seconds that one download, and waiting for another run's build, may take.
peer_net_deadline=300
peer_lock_deadline=${GPUHIER_PEERS_WAIT:-1800}

peer_say()
{
    printf '%s: %s\n' "$peer_name" "$*" >&2
}

# peer_give_up MESSAGE...: not possible on this machine
peer_give_up()
{
    peer_say "$*"
    exit "$peer_skip"
}

# peer_cuda_home: folder of the CUDA toolkit, or nothing
peer_cuda_home()
{
    local dir nvcc
    nvcc=$(command -v nvcc || true)
    for dir in "${CUDA_HOME:-}" /usr/local/cuda "${nvcc:+${nvcc%/bin/nvcc}}"; do
        if [ -n "$dir" ] && [ -f "$dir/include/cuda.h" ]; then
            printf '%s\n' "$dir"
            return
        fi
    done
}

# peer_cuda_version DIR: the number that cuda.h gives itself, for the recipe
peer_cuda_version()
{
    awk '$1 == "#define" && $2 == "CUDA_VERSION" { print $3 }' "$1/include/cuda.h"
}

# peer_manifest DIR: "size path" of every file of an installation, sorted
peer_manifest()
{
    (cd "$1" && find . -type f ! -name .gpuhier-peer -printf '%s %p\n' | LC_ALL=C sort)
}

# peer_is_good: the prefix was made by this recipe, for this place, and no file
# of it is missing or of another size. Files that were added are no concern.
peer_is_good()
{
    local stamp=$peer_prefix/.gpuhier-peer
    [ -f "$stamp" ] || return 1
    [ "$(sed '/^$/q' "$stamp")" = "$(peer_stamp_head)" ] || return 1
    [ -z "$(sed '1,/^$/d' "$stamp" | LC_ALL=C comm -23 - <(peer_manifest "$peer_prefix"))" ]
}

peer_stamp_head()
{
    printf 'prefix %s\n%s\n\n' "$peer_prefix" "$peer_recipe"
}

# peer_packages FILE=PACKAGE...: install the Debian packages whose file (a path,
# or the name of a program) is absent; name them where that is not allowed
peer_packages()
{
    local pair file missing=
    for pair in "$@"; do
        file=${pair%%=*}
        if [ -e "$file" ] || command -v "$file" > /dev/null; then
            continue
        fi
        case "$missing " in
        *" ${pair#*=} "*) ;;
        *) missing="$missing ${pair#*=}" ;;
        esac
    done
    if [ -z "$missing" ]; then
        return
    fi
    if [ "$(id -u)" != 0 ]; then
        peer_give_up "needs packages that only root can install; run: apt-get install$missing"
    fi
    command -v apt-get > /dev/null || peer_give_up "needs these Debian packages:$missing"
    peer_say "installing$missing"
    local install="apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 install $missing"
    export DEBIAN_FRONTEND=noninteractive
    # The package lists may be absent or old: the second try fetches them.
    timeout "$peer_net_deadline" $install >> "$peer_log" 2>&1 || {
        timeout "$peer_net_deadline" apt-get -q update >> "$peer_log" 2>&1
        timeout "$peer_net_deadline" $install >> "$peer_log" 2>&1
    } || peer_give_up "cannot install$missing (see $peer_log)"
}

# peer_mirror APT_OPTION...: the address of the Debian mirror that this machine is configured for.
# Of the sources, it is the one that carries this machine's release itself: a security or backports
# archive has no complete suite, and a vendor's holds only its own packages.
peer_mirror()
{
    # shellcheck disable=SC2016
    apt-get "$@" indextargets --format '$(RELEASE) $(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2> /dev/null |
        awk -v release="$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")" \
            '$1 == release && ($2 == "Debian" || $NF ~ "/debian/?$") { print $NF; exit }'
}

# peer_apt_setup SUITE "TYPE COMPONENT"...: private package lists of one Debian suite
# (type deb or deb-src), so that neither the machine's own lists nor its sources are touched
peer_apt_setup()
{
    local suite=$1 wanted mirror key=/usr/share/keyrings/debian-archive-keyring.gpg option=
    shift
    command -v apt-get > /dev/null || peer_give_up "needs apt-get, to fetch sources from a Debian mirror"
    mirror=$(peer_mirror)
    if [ -z "$mirror" ]; then
        # A machine whose package lists were never fetched, or were removed, knows no targets.
        mkdir -p "$peer_work/machine/lists/partial"
        local lists="Dir::State::Lists=$peer_work/machine/lists"
        timeout "$peer_net_deadline" apt-get -q -o "$lists" -o APT::Sandbox::User=root update >> "$peer_log" 2>&1
        mirror=$(peer_mirror -o "$lists")
    fi
    [ -n "$mirror" ] || peer_give_up "no Debian mirror answers among this machine's apt sources (see $peer_log)"
    if [ -f "$key" ]; then
        option="[signed-by=$key] "
    fi
    mkdir -p "$peer_work/apt/lists/partial" "$peer_work/apt/cache/archives/partial"
    for wanted in "$@"; do
        printf '%s %s%s %s %s\n' "${wanted% *}" "$option" "$mirror" "$suite" "${wanted#* }"
    done > "$peer_work/apt/sources.list"
    peer_apt=(apt-get -q -o "Dir::Etc::sourcelist=$peer_work/apt/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::Lists=$peer_work/apt/lists"
        -o "Dir::Cache=$peer_work/apt/cache" -o APT::Sandbox::User=root
        -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o APT::Update::Error-Mode=any)
    peer_say "reading the package lists of $suite"
    timeout "$peer_net_deadline" "${peer_apt[@]}" update >> "$peer_log" 2>&1 ||
        peer_give_up "cannot read the package lists of Debian's $suite (no network? see $peer_log)"
}

# peer_apt_fetch ARG...: an apt-get command that downloads into the current folder
peer_apt_fetch()
{
    timeout "$peer_net_deadline" "${peer_apt[@]}" "$@" >> "$peer_log" 2>&1 ||
        peer_give_up "cannot download ${*: -1} (see $peer_log)"
}

# peer_ompi5_source: sets peer_ompi5_tar, the source of Open MPI 5.0.7 from Debian 13, kept in the cache. The tar
# file as released: Debian's patches move folders and would make the build regenerate its own scripts.
peer_ompi5_source()
{
    local name=openmpi_5.0.7.orig.tar.xz
    peer_ompi5_tar=$peer_cache/$name
    [ ! -f "$peer_ompi5_tar" ] || return 0
    peer_apt_setup trixie "deb-src main"
    peer_say "fetching the source package"
    peer_apt_fetch source --download-only openmpi
    [ -f "$name" ] || peer_give_up "Debian's source package is no longer version 5.0.7"
    mv "$name" "$peer_ompi5_tar"
}

# peer_run WHAT COMMAND...: one step of a build, its output in the log
peer_run()
{
    local what=$1
    shift
    peer_say "$what"
    if ! nice "$@" >> "$peer_log" 2>&1; then
        tail -n 15 "$peer_log" >&2
        peer_say "could not $what; the whole log is $peer_log"
        exit 1
    fi
}

peer_free_mib()
{
    df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

# peer_publish: turn the staged installation into the prefix, by one rename
peer_publish()
{
    local staged=$peer_stage$peer_prefix
    {
        peer_stamp_head
        peer_manifest "$staged"
    } > "$peer_work/stamp"
    mv "$peer_work/stamp" "$staged/.gpuhier-peer"
    if [ -e "$peer_prefix" ]; then
        mv "$peer_prefix" "$peer_work/old"
    fi
    mv "$staged" "$peer_prefix"
}

# peer_main ARGS: --check only looks; without it a missing prefix is built.
# The last line on standard output is the prefix.
peer_main()
{
    local begin=$SECONDS
    peer_prefix=$peer_cache/$peer_name
    if peer_is_good; then
        printf '%s\n' "$peer_prefix"
        return
    fi
    if [ "${1:-}" = --check ]; then
        peer_give_up "not in the cache; ${BASH_SOURCE[-1]} builds it"
    fi
    mkdir -p "$peer_cache" 2> /dev/null && [ -w "$peer_cache" ] ||
        peer_give_up "cannot write to $peer_cache (set XDG_CACHE_HOME)"
    exec 9> "$peer_cache/$peer_name.lock"
    flock -w "$peer_lock_deadline" 9 ||
        peer_give_up "another build of it did not end within $peer_lock_deadline s"
    if peer_is_good; then
        printf '%s\n' "$peer_prefix"
        return
    fi
    # Under the lock, scratch folders of this peer are leftovers of killed runs.
    rm -rf "$peer_cache/work.$peer_name".*
    if [ "$(peer_free_mib "$peer_cache")" -lt "$peer_space_mib" ]; then
        peer_give_up "needs $peer_space_mib MiB of free space in $peer_cache"
    fi
    peer_work=$(mktemp -d "$peer_cache/work.$peer_name.XXXXXX")
    peer_stage=$peer_work/stage
    peer_log=$peer_cache/$peer_name.log
    trap 'rm -rf "$peer_work"' EXIT
    trap 'exit 143' HUP INT TERM
    : > "$peer_log"
    # Nothing of the caller's build or run may leak into this one, and no child
    # that outlives it may keep the lock.
    unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS CC CXX
    unset LD_LIBRARY_PATH LD_PRELOAD OPAL_PREFIX DESTDIR "${!OMPI_@}" "${!UCX_@}"
    (peer_build) 9>&- || exit
    peer_publish
    peer_say "built in $((SECONDS - begin)) s"
    printf '%s\n' "$peer_prefix"
}
