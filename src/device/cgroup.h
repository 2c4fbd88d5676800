/* What the control groups of this process grant it, in CPUs and in memory (versions 1, 2 and both mixed). */
#ifndef PAWL_DEVICE_CGROUP_H
#define PAWL_DEVICE_CGROUP_H

#include <stddef.h>

typedef struct pawl_cgroup {
    int cpus;   /* whole CPUs of the tightest quota, rounded down, at least 1; 0: no quota */
    size_t mem; /* bytes of the tightest limit; 0: no limit */
} pawl_cgroup;

/* membership: the file that lists this process's groups ("/proc/self/cgroup"); root: where the hierarchies are mounted
 * ("/sys/fs/cgroup"). Both are arguments so that a test can build its own tree. What is missing counts as no limit. */
pawl_cgroup pawl__cgroup_read(const char *membership, const char *root);

#endif
