/* Good messages, damaged at random: whatever comes out, the properties hold. The same damage on every run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

#include "http_properties.h"

#define MAX_BYTES 2048
#define MAX_ROUNDS 60000
#define MAX_SECONDS 2

static const char *const seeds[] = {
	"GET http://h:80/a?b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-A\r\nX-A: 1\r\nB: c\r\n\r\n",
	"POST http://u:p@h/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET /x "
	"HTTP/1.1\r\nHost: h\r\n\r\n",
	"PUT /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTE: "
	"trailers\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nX-T: 1\r\n\r\nHEAD / HTTP/1.0\r\n\r\n",
	"CONNECT [::1]:443 HTTP/1.1\r\nHost: h:443\r\n\r\n\x16\x03\x01",
	"\r\nGET http://h/ HTTP/1.0\r\nProxy-Connection: keep-alive\r\nUpgrade: x\r\nConnection: upgrade\r\nVia: 1.1 "
	"evenkeel (id)\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: "
	"timeout=5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\n\r\n",
	"HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\nuntil the end",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nbytes",
	"5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
};
#define N_SEEDS (sizeof(seeds) / sizeof(seeds[0]))

static const char *const tokens[] = {
	"\r\n",
	"\n",
	"\r",
	"\r\n\r\n",
	":",
	" ",
	"\t",
	",",
	";",
	"\x7f",
	"\xff",
	"0",
	"chunked",
	"Transfer-Encoding: chunked\r\n",
	"Content-Length: 5\r\n",
	"Content-Length: 0\r\n",
	"Host: x\r\n",
	"Connection: close, host\r\n",
	"HTTP/1.0",
	"HTTP/1.1",
	"0\r\n\r\n",
	"5\r\n",
	"+",
	"@",
	"#",
	"%",
	"[",
	"]",
	"GET ",
	" HTTP/1.1\r\n",
	"Upgrade: x\r\n",
	"FFFFFFFFFFFFFFFF",
	"18446744073709551616",
};
#define N_TOKENS (sizeof(tokens) / sizeof(tokens[0]))

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static size_t random_below(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (size_t)((random_state >> 11) % n);
}

/* Replaces n_old bytes at `at` by the n_new bytes of text, within MAX_BYTES. */
static void replace(char *bytes, size_t *n, size_t at, size_t n_old, const char *text, size_t n_new)
{
	if (n_old > *n - at)
		n_old = *n - at;
	if (*n - n_old + n_new > MAX_BYTES)
		return;
	memmove(bytes + at + n_new, bytes + at + n_old, *n - at - n_old);
	memcpy(bytes + at, text, n_new);
	*n = *n - n_old + n_new;
}

static void damage(char *bytes, size_t *n)
{
	size_t at = random_below(*n + 1);
	const char *token = tokens[random_below(N_TOKENS)];
	char octet = (char)random_below(256), piece[64];
	size_t length = random_below(sizeof(piece));

	switch (random_below(6)) {
	case 0:
		replace(bytes, n, at, 1, &octet, 1);
		break;
	case 1:
		replace(bytes, n, at, 0, token, strlen(token));
		break;
	case 2:
		replace(bytes, n, at, strlen(token), token, strlen(token));
		break;
	case 3:
		replace(bytes, n, at, random_below(8), "", 0);
		break;
	case 4: /* a piece once more, elsewhere */
		if (length > *n - at)
			length = *n - at;
		memcpy(piece, bytes + at, length);
		replace(bytes, n, random_below(*n + 1), 0, piece, length);
		break;
	default: /* the rest from another message */
		token = seeds[random_below(N_SEEDS)];
		replace(bytes, n, at, *n - at, token, strlen(token));
		break;
	}
}

static void properties_survive_damage(void **state)
{
	clock_t start = clock();
	char bytes[MAX_BYTES];
	size_t n_rounds = 0;

	(void)state;
	while (n_rounds < MAX_ROUNDS && clock() - start < MAX_SECONDS * CLOCKS_PER_SEC) {
		const char *seed = seeds[random_below(N_SEEDS)];
		size_t n = strlen(seed);

		memcpy(bytes, seed, n);
		for (size_t i = random_below(5); i > 0; i--)
			damage(bytes, &n);
		properties_of(bytes, n, random_below(n + 1), 1 + random_below(9));
		n_rounds++;
	}
	assert_in_range(n_rounds, 100, MAX_ROUNDS);
}

static void properties_hold_for_the_seeds(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SEEDS; i++)
		for (size_t first = 0; first < strlen(seeds[i]); first++)
			properties_of(seeds[i], strlen(seeds[i]), first, 1 + first % 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(properties_hold_for_the_seeds),
		cmocka_unit_test(properties_survive_damage),
	};
	return cmocka_run_group_tests_name("http mutation", tests, NULL, NULL);
}
