"""Where the messages of package `inference` are kept.

Every client and server of the Open Inference Protocol brings its own copy of that package, and
protobuf's default pool takes one a process: the second import would fail. So ours stand in a pool
of their own, and a program may import `tritonclient` or `kserve` beside foretell.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
