/* Counts the clock reads of the program that it is loaded into (ld.so(8), LD_PRELOAD): those that
 * the C library makes through the vdso(7), without a system call. Compiled when needed, by the
 * machine's C compiler. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct counts {
	uint64_t programs; /* that loaded this library */
	uint64_t reads;
};

static struct counts own, *counts = &own;

/* Clocks of the vDSO. Clocks of processor time need a system call. */
static int is_in_vdso(clockid_t clock)
{
	const unsigned known = 1u << CLOCK_REALTIME | 1u << CLOCK_MONOTONIC |
			       1u << CLOCK_MONOTONIC_RAW | 1u << CLOCK_REALTIME_COARSE |
			       1u << CLOCK_MONOTONIC_COARSE | 1u << CLOCK_BOOTTIME |
			       1u << CLOCK_TAI;
	return clock >= 0 && clock < 32 && (known >> clock & 1);
}

static void read_once(void)
{
	__atomic_fetch_add(&counts->reads, 1, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FULMAR_CLOCK_READS");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *shared = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (shared == MAP_FAILED)
		return;
	counts = shared;
	__atomic_fetch_add(&counts->programs, 1, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
	static int (*next)(clockid_t, struct timespec *);
	if (!next)
		next = dlsym(RTLD_NEXT, "clock_gettime");
	if (is_in_vdso(clock))
		read_once();
	return next(clock, to);
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
	static int (*next)(struct timeval *, void *);
	if (!next)
		next = dlsym(RTLD_NEXT, "gettimeofday");
	read_once();
	return next(to, zone);
}

time_t time(time_t *to)
{
	static time_t (*next)(time_t *);
	if (!next)
		next = dlsym(RTLD_NEXT, "time");
	read_once();
	return next(to);
}
