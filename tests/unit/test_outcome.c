#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../../proxy/policy/outcome.h"

static void every_outcome_is_described(void **state)
{
	(void)state;
	for (int i = 0; i < N_OUTCOMES; i++) {
		const struct outcome_facts *facts = &outcome_facts[i];
		assert_non_null(facts->word);
		assert_true(strlen(facts->word) > 0 && strlen(facts->detail) > 0);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(outcome_facts[j].word, facts->word);
		/* an error of our own has both a status and a type; anything else neither */
		assert_int_equal(facts->status != 0, strlen(facts->proxy_error) > 0);
		assert_true(facts->status == 0 || (facts->status >= 400 && facts->status <= 599));
	}
}

/* RFC 9209 2.3: the types that Proxy-Status may name. */
static void error_types_are_registered(void **state)
{
	(void)state;
	static const char registered[] =
		" dns_timeout dns_error destination_not_found destination_unavailable destination_ip_prohibited"
		" destination_ip_unroutable connection_refused connection_terminated connection_timeout connection_read_timeout"
		" connection_write_timeout connection_limit_reached tls_protocol_error tls_certificate_error tls_alert_received"
		" http_request_error http_request_denied http_response_incomplete http_response_header_section_size"
		" http_response_header_size http_response_body_size http_response_trailer_section_size http_response_trailer_size"
		" http_response_transfer_coding http_response_content_coding http_response_timeout http_upgrade_failed"
		" http_protocol_error proxy_internal_response proxy_internal_error proxy_configuration_error"
		" proxy_loop_detected ";

	for (int i = 0; i < N_OUTCOMES; i++) {
		char wanted[80] = " ";
		strcat(strcat(wanted, outcome_facts[i].proxy_error), " ");
		if (outcome_facts[i].status != 0)
			assert_non_null(strstr(registered, wanted));
	}
}

static void statuses_and_errors(void **state)
{
	(void)state;
	const struct {
		enum outcome outcome;
		int status;
		const char *error;
	} cases[] = {
		{ OUTCOME_TOTAL_TIMEOUT, 504, "http_response_timeout" },
		{ OUTCOME_ATTEMPT_TIMEOUT, 504, "http_response_timeout" },
		{ OUTCOME_HEADERS_TIMEOUT, 504, "http_response_timeout" },
		{ OUTCOME_BODY_IDLE, 504, "connection_read_timeout" },
		{ OUTCOME_CONNECT_TIMEOUT, 504, "connection_timeout" },
		{ OUTCOME_TLS_TIMEOUT, 504, "connection_timeout" },
		{ OUTCOME_CONNECT_REFUSED, 502, "connection_refused" },
		{ OUTCOME_CONNECT_UNREACHABLE, 502, "destination_ip_unroutable" },
		{ OUTCOME_RESET, 502, "connection_terminated" },
		{ OUTCOME_INCOMPLETE_BODY, 502, "http_response_incomplete" },
		{ OUTCOME_BAD_RESPONSE, 502, "http_protocol_error" },
		{ OUTCOME_HEADERS_TOO_LARGE, 502, "http_response_header_section_size" },
		{ OUTCOME_DNS_NO_NAME, 502, "dns_error" },
		{ OUTCOME_DNS_FAILURE, 502, "dns_error" },
		{ OUTCOME_DNS_TIMEOUT, 504, "dns_timeout" },
		{ OUTCOME_TLS_CERTIFICATE, 502, "tls_certificate_error" },
		{ OUTCOME_TLS_FAILURE, 502, "tls_protocol_error" },
		{ OUTCOME_POOL_WAIT, 503, "connection_limit_reached" },
		{ OUTCOME_MAX_PENDING, 503, "connection_limit_reached" },
		{ OUTCOME_RATE_LIMIT, 503, "connection_limit_reached" },
		{ OUTCOME_BREAKER_OPEN, 503, "destination_unavailable" },
		{ OUTCOME_HOST_DENIED, 403, "http_request_denied" },
		{ OUTCOME_ADDRESS_DENIED, 403, "destination_ip_prohibited" },
		{ OUTCOME_LOOP, 502, "proxy_loop_detected" },
		{ OUTCOME_DRAIN_CUT, 503, "proxy_internal_response" },
		{ OUTCOME_CLIENT_SLOW, 408, "http_request_error" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(outcome_facts[cases[i].outcome].status, cases[i].status);
		assert_string_equal(outcome_facts[cases[i].outcome].proxy_error, cases[i].error);
	}
}

static void reasons(void **state)
{
	(void)state;
	char storage[24];

	assert_string_equal(outcome_reason(OUTCOME_RESPONSE, 503, storage), "503");
	assert_string_equal(outcome_reason(OUTCOME_RESPONSE, 0, storage), "0");
	assert_string_equal(outcome_reason(OUTCOME_RESPONSE, 2147483647, storage), "2147483647");
	assert_string_equal(outcome_reason(OUTCOME_CONNECT_REFUSED, 0, storage), "connect_failure");
	assert_string_equal(outcome_reason(OUTCOME_STALE, 0, storage), "reset");
	assert_string_equal(outcome_reason(OUTCOME_BODY_IDLE, 0, storage), "attempt_timeout");
	assert_string_equal(outcome_reason(OUTCOME_DNS_NO_NAME, 0, storage), "dns_no_name");
	assert_string_equal(retry_kind_word(RETRY_DNS_FAILURE), "dns_failure");
	assert_string_equal(retry_kind_word(RETRY_INCOMPLETE_BODY), "incomplete_body");
	assert_string_equal(retry_kind_word(RETRY_TLS_FAILURE), "tls_failure");
	assert_string_equal(retry_kind_word(RETRY_BAD_RESPONSE), "bad_response");
	assert_string_equal(retry_kind_word(RETRY_KIND_NONE), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_outcome_is_described),
		cmocka_unit_test(error_types_are_registered),
		cmocka_unit_test(statuses_and_errors),
		cmocka_unit_test(reasons),
	};
	return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}
