#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "tls_private.h"

static struct list contexts = { &contexts, &contexts }; /* those that live, to be shared */

static void digest_bytes(EVP_MD_CTX *digest, const void *bytes, size_t n)
{
	uint64_t length = bytes != NULL ? n : UINT64_MAX; /* none is another thing than empty */
	EVP_DigestUpdate(digest, &length, sizeof(length));
	if (bytes != NULL)
		EVP_DigestUpdate(digest, bytes, n);
}

static void digest_text(EVP_MD_CTX *digest, const char *text)
{
	digest_bytes(digest, text, text != NULL ? strlen(text) : 0);
}

/* Everything that decides whom this context trusts and what it shows of itself. */
static void digest_rule(unsigned char out[32], const struct tls_rule *rule, const struct tls_files *files)
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	CHECK(digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1);
	unsigned char plain[2] = { rule->verify, (unsigned char)rule->min_version };
	digest_bytes(digest, plain, sizeof(plain));
	digest_text(digest, rule->server_name);
	digest_bytes(digest, files->ca, files->n_ca);
	if (files->ca == NULL) {
		unsigned char stamp[32];
		tls_system_store_stamp(stamp);
		digest_bytes(digest, stamp, sizeof(stamp));
	}
	digest_bytes(digest, files->certificate, files->n_certificate);
	digest_bytes(digest, files->key, files->n_key);
	for (size_t i = 0; i < rule->pins.n; i++)
		digest_text(digest, rule->pins.items[i]);
	CHECK(EVP_DigestFinal_ex(digest, out, NULL) == 1);
	EVP_MD_CTX_free(digest);
}

static struct tls_context *context_of(const unsigned char digest[32])
{
	LIST_EACH(link, &contexts) {
		struct tls_context *context = LIST_ENTRY_OF(link, struct tls_context, link);
		if (memcmp(context->digest, digest, sizeof(context->digest)) == 0)
			return context;
	}
	return NULL;
}

static bool parse_pins(struct tls_context *context, const struct tls_rule *rule, char *error, size_t capacity)
{
	context->pins = xcalloc(rule->pins.n + 1, sizeof(context->pins[0]));
	for (size_t i = 0; i < rule->pins.n; i++) {
		if (!tls_pin_parse(rule->pins.items[i], context->pins[i])) {
			snprintf(error, capacity, "tls.pins: %s: expected sha256/ and 44 characters of base64",
				 rule->pins.items[i]);
			return false;
		}
		context->n_pins++;
	}
	return true;
}

static void context_free(struct tls_context *context)
{
	list_remove(&context->link);
	tls_sessions_clear(context);
	SSL_CTX_free(context->ssl);
	free(context->pins);
	free(context);
}

static struct tls_context *context_new(const struct tls_rule *rule, const struct tls_files *files, char *error,
				       size_t capacity)
{
	struct tls_context *context = xcalloc(1, sizeof(*context));
	context->references = 1;
	context->is_verifying = rule->verify;
	list_init(&context->link);
	list_init(&context->sessions);
	if (parse_pins(context, rule, error, capacity))
		context->ssl = tls_context_make(rule, files, error, capacity);
	if (context->ssl == NULL) {
		context_free(context);
		return NULL;
	}
	return context;
}

struct tls_context *tls_context_get(const struct tls_rule *rule, char *error, size_t error_capacity)
{
	struct tls_files files;
	unsigned char digest[32];
	if (!tls_files_read(&files, rule, error, error_capacity))
		return NULL;
	digest_rule(digest, rule, &files);
	struct tls_context *context = context_of(digest);
	if (context != NULL) {
		tls_context_ref(context);
	} else {
		context = context_new(rule, &files, error, error_capacity);
		if (context != NULL) {
			memcpy(context->digest, digest, sizeof(digest));
			list_append(&contexts, &context->link);
		}
	}
	tls_files_clear(&files);
	return context;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
	context->references++;
	return context;
}

void tls_context_unref(struct tls_context **context)
{
	struct tls_context *gone = *context;
	if (gone == NULL)
		return;
	*context = NULL;
	CHECK(gone->references > 0);
	if (--gone->references == 0)
		context_free(gone);
}

uint64_t tls_context_identity(const struct tls_context *context)
{
	uint64_t identity;
	memcpy(&identity, context->digest, sizeof(identity));
	return identity != 0 ? identity : 1; /* 0 may stand for "no TLS" */
}
