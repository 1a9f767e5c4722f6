/* A wall clock that jumps, for one process: LD_PRELOAD, and 8 bytes of nanoseconds in the file that
 * JUMPING_CLOCK names, which whoever drives it may change at any time.
 *
 * What reads the wall clock sees it moved. What waits until a time of the wall clock waits until
 * the moved one shows it, as it would if the machine's own clock were set. The monotonic clock is
 * left as it is. Linux and glibc; cc -shared -fPIC -o jumping_clock.so jumping_clock.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define SLICE_NS 50000000LL /* a wait looks so often whether the clock has jumped */
#define YEAR_2001_S 1000000000L /* times after it are of the wall clock, not since the boot */

static volatile long long *moved;
static long (*real_syscall)(long, ...);
static int (*real_cond)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem)(sem_t *, const struct timespec *);

static void *find(const char *name, const char *version) {
  void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
  return found ? found : dlsym(RTLD_NEXT, name);
}

static long wall_clock(clockid_t clock, struct timespec *now) {
  if (!real_syscall) real_syscall = find("syscall", NULL);
  return real_syscall(SYS_clock_gettime, clock, now);
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("JUMPING_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (!real_syscall) real_syscall = find("syscall", NULL);
  real_cond = find("pthread_cond_timedwait", "GLIBC_2.3.2");
  real_sem = find("sem_timedwait", NULL);
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) moved = page;
  close(file);
}

static long long ns_of(const struct timespec *at) { return at->tv_sec * NS + at->tv_nsec; }

static struct timespec time_of(long long ns) {
  struct timespec at = {ns / NS, ns % NS};
  return at;
}

static long long true_now(void) {
  struct timespec now;
  wall_clock(CLOCK_REALTIME, &now);
  return ns_of(&now);
}

static long long shown_now(void) { return true_now() + (moved ? *moved : 0); }

/* The end of a slice of a wait, in true time. */
static struct timespec slice_of(const struct timespec *until) {
  long long left = ns_of(until) - shown_now();
  return time_of(true_now() + (left < 0 ? 0 : left < SLICE_NS ? left : SLICE_NS));
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  long code = wall_clock(clock, now);
  if (code == 0 && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    *now = time_of(ns_of(now) + *moved);
  return code;
}

int gettimeofday(struct timeval *now, void *zone) {
  long long ns = shown_now();
  (void)zone;
  now->tv_sec = ns / NS;
  now->tv_usec = ns % NS / 1000;
  return 0;
}

time_t time(time_t *out) {
  time_t now = shown_now() / NS;
  if (out) *out = now;
  return now;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until) {
  if (until->tv_sec < YEAR_2001_S) return real_cond(cond, lock, until);
  struct timespec slice = slice_of(until);
  int code = real_cond(cond, lock, &slice);
  return code == ETIMEDOUT && shown_now() < ns_of(until) ? 0 : code; /* 0: woken for nothing */
}

int sem_timedwait(sem_t *sem, const struct timespec *until) {
  for (;;) {
    struct timespec slice = slice_of(until);
    int code = real_sem(sem, &slice);
    if (code == 0 || errno != ETIMEDOUT || shown_now() >= ns_of(until)) return code;
  }
}

/* gRPC's locks call futexes themselves. */
long syscall(long number, ...) {
  long a[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
  va_end(rest);
  if (!real_syscall) real_syscall = find("syscall", NULL);
  const struct timespec *until = (const struct timespec *)a[3];
  int waits = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
              (a[1] & FUTEX_CLOCK_REALTIME) && until;
  if (!waits) return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  struct timespec slice = slice_of(until);
  long code = real_syscall(number, a[0], a[1], a[2], (long)&slice, a[4], a[5]);
  if (code < 0 && errno == ETIMEDOUT && shown_now() < ns_of(until)) errno = EINTR;
  return code;
}
