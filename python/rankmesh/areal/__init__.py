"""AReaL's names: its topologies, grid and registry, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.areal import topology as topology
from rankmesh.areal.topology import *  # noqa: F403

install = installer(__name__, {"realhf.base": ["topology"]})
