#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "../../proxy/policy/egress.h"

#define LIST(...) { (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *) }
#define PORTS(...) .ports = (const uint16_t[]){ __VA_ARGS__ }, .n_ports = sizeof((const uint16_t[]){ __VA_ARGS__ }) / 2

static void opaque_ports(void **state)
{
	(void)state;
	struct egress_rule rule = { .connect_ports = (uint16_t[]){ 443, 8443 }, .n_connect_ports = 2 };
	struct upstream_def plain = { .name = "plain" }, named = { .name = "named", PORTS(9443) };
	assert_true(egress_is_opaque_port(&rule, &plain, 443));
	assert_true(egress_is_opaque_port(&rule, &plain, 8443));
	assert_false(egress_is_opaque_port(&rule, &plain, 80));
	assert_false(egress_is_opaque_port(&rule, &plain, 9443));
	assert_true(egress_is_opaque_port(&rule, &named, 9443));
	assert_true(egress_is_opaque_port(&rule, &named, 443));
	rule.n_connect_ports = 0;
	assert_false(egress_is_opaque_port(&rule, &named, 443));
	rule.connect_any_port = true;
	assert_true(egress_is_opaque_port(&rule, &plain, 1));
}

static void port_to_dial(void **state)
{
	(void)state;
	struct upstream_def plain = { .port = 8443 }, tls = { .tls.originate = true };
	struct upstream_def moved = { .tls.originate = true, .port = 8443 };
	assert_int_equal(egress_port(&plain, 80), 80); /* `port:` counts only where TLS is originated */
	assert_int_equal(egress_port(&plain, 8080), 8080);
	assert_int_equal(egress_port(&tls, 80), 443);
	assert_int_equal(egress_port(&tls, 8080), 8080);
	assert_int_equal(egress_port(&moved, 80), 8443);
	assert_int_equal(egress_port(&moved, 8080), 8443);
}

static void local_ports_stand_for_the_first_exact_host(void **state)
{
	(void)state;
	struct upstream_def upstream = { .hosts = LIST("*.pay.example", "a.example", "b.example") };
	struct upstream_def none = { .hosts = LIST("*", "*.pay.example") };
	assert_string_equal(egress_local_host(&upstream), "a.example");
	assert_null(egress_local_host(&none));
}

static void port_that_a_local_port_stands_for(void **state)
{
	(void)state;
	struct upstream_def plain = { .name = "plain" }, named = { PORTS(8080, 8081) }, with_80 = { PORTS(8080, 80) };
	assert_int_equal(egress_local_port(&plain), 80);
	assert_int_equal(egress_local_port(&named), 8080);
	assert_int_equal(egress_local_port(&with_80), 80);
	plain.tls.originate = named.tls.originate = with_80.tls.originate = true;
	assert_int_equal(egress_local_port(&plain), 443);
	assert_int_equal(egress_local_port(&named), 8080);
	assert_int_equal(egress_local_port(&with_80), 443);
	with_80.port = 9443;
	assert_int_equal(egress_local_port(&with_80), 9443);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opaque_ports),
		cmocka_unit_test(port_to_dial),
		cmocka_unit_test(local_ports_stand_for_the_first_exact_host),
		cmocka_unit_test(port_that_a_local_port_stands_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
