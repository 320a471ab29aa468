/* Counts the clock reads of the program that it is loaded into (ld.so(8), LD_PRELOAD): those that
 * go through the C library, which asks the vdso(7) and hardly ever the kernel. Compiled when it is
 * needed, by the compiler of the machine. */
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
	uint64_t programs; /* into which this was loaded */
	uint64_t reads;
};

static struct counts own, *counts = &own;

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
