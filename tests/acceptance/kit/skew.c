/* Preloaded into a node: its wall clock is KIT_SKEW_S seconds away from the machine's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, found);
    const char *skew = getenv("KIT_SKEW_S");
    if (result == 0 && skew && which == CLOCK_REALTIME) found->tv_sec += atol(skew);
    return result;
}
