# SPDX-License-Identifier: Apache-2.0
# For tests of what a launcher starts, on this machine alone: source it; `launchers` names those that are here.
cache=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/lockstep}
peers=$cache/peers-$(sha256sum "$(dirname "${BASH_SOURCE[0]}")/../peers.txt" | cut -c 1-12)

# CUDA's libraries are empty there, and nobody calls them.
torchrun='import os, sys
sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
from torch.distributed.run import main
main()'

launchers() {
  [ -e "$peers/complete" ] && echo torchrun
  mpirun --version 2>/dev/null | grep -q 'Open MPI' && echo mpirun
  return 0
}

free_port() {
  python3 "$(dirname "${BASH_SOURCE[0]}")/../free_port.py"
}

# launch LAUNCHER N COMMAND...: within three minutes.
launch() {
  local launcher=$1 n=$2 port
  shift 2
  port=$(free_port)
  if [ "$launcher" = torchrun ]; then
    LD_LIBRARY_PATH=$peers/stubs:$(echo "$cache"/libtorch-2.11.0+*/nvidia/cu13/lib) timeout -k 10 180 \
      "$peers/bin/python3" -c "$torchrun" --no-python --nproc-per-node "$n" --master-addr 127.0.0.1 \
      --master-port "$port" "$@"
  else
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$port OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
      OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo timeout -k 10 180 mpirun --oversubscribe --bind-to none \
      -n "$n" "$@"
  fi
}
