#include "metrics_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files of /proc are read with one read(2): they are made anew for each, so more reads could disagree. */
static bool file_read(const char *path, char *text, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, capacity - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

static void memory_read(struct process_state *state)
{
	char text[256];
	long long size_pages, resident_pages;
	long page_bytes = sysconf(_SC_PAGESIZE);

	if (!file_read("/proc/self/statm", text, sizeof text) || sscanf(text, "%lld %lld", &size_pages, &resident_pages) != 2)
		return;
	state->virtual_bytes = size_pages * page_bytes;
	state->resident_bytes = resident_pages * page_bytes;
}

static int64_t open_fds_read(void)
{
	struct stat about;
	int64_t n = 0;

	if (stat("/proc/self/fd", &about) == 0 && about.st_size > 0) /* Linux 6.2 and later say it at once */
		return about.st_size;
	DIR *folder = opendir("/proc/self/fd");
	if (!folder)
		return -1;
	for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		n += entry->d_name[0] != '.';
	closedir(folder);
	return n - 1; /* the folder's own */
}

/* Field 22 of stat, in clock ticks since boot; the name in field 2 may itself hold spaces and brackets. */
static double start_ticks_read(void)
{
	char text[1024];
	unsigned long long ticks;

	if (!file_read("/proc/self/stat", text, sizeof text))
		return -1;
	char *place = strrchr(text, ')');
	for (int field = 2; place && field < 22; field++) {
		place = strchr(place, ' ');
		if (place)
			place++;
	}
	return place && sscanf(place, "%llu", &ticks) == 1 ? (double)ticks : -1;
}

/* /proc/stat is long on large machines (a line for each CPU, and one of all interrupts), so it is read by lines. */
static double boot_seconds_read(void)
{
	char *line = NULL;
	size_t capacity = 0;
	unsigned long long seconds;
	double boot = -1;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return -1;
	while (boot < 0 && getline(&line, &capacity, file) > 0)
		if (sscanf(line, "btime %llu", &seconds) == 1)
			boot = (double)seconds;
	free(line);
	fclose(file);
	return boot;
}

static double start_seconds_read(void)
{
	static double start = -1; /* it doesn't change */

	if (start < 0) {
		double ticks = start_ticks_read(), boot = boot_seconds_read();
		if (ticks >= 0 && boot >= 0)
			start = boot + ticks / (double)sysconf(_SC_CLK_TCK);
	}
	return start;
}

struct process_state process_state_read(void)
{
	struct process_state state = { -1, -1, -1, -1, -1, -1 };
	struct rusage used;
	struct rlimit fds;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		state.cpu_seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
				    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
		state.max_fds = fds.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)fds.rlim_cur;
	memory_read(&state);
	state.open_fds = open_fds_read();
	state.start_seconds = start_seconds_read();
	return state;
}
