"""picotron's names: its process group manager, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.picotron import process_group_manager
from rankmesh.picotron.process_group_manager import ProcessGroupManager, setup_process_group_manager

__all__ = ["ProcessGroupManager", "install", "process_group_manager", "setup_process_group_manager"]

install = installer(__name__, {"picotron": ["process_group_manager"]})
