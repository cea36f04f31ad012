/* Is this the peer that was meant? And if not, what exactly is wrong with its certificate, in one line. */
#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tls_private.h"

#define MAX_NAMES_TOLD 5
#define PIN_PREFIX "sha256/"

/* A growing line; what does not fit is cut. Bytes that would upset a log or a header become '?'. */
struct line {
	char *text;
	size_t length, capacity;
};

static void line_add(struct line *line, const char *text, size_t n)
{
	for (size_t i = 0; i < n && line->length + 1 < line->capacity; i++) {
		unsigned char c = (unsigned char)text[i];
		line->text[line->length++] = c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? (char)c : '?';
	}
	line->text[line->length] = '\0';
}

static void line_say(struct line *line, const char *text)
{
	line_add(line, text, strlen(text));
}

static void say_name(struct line *line, X509_NAME *name)
{
	BIO *memory = BIO_new(BIO_s_mem());
	char *text;
	unsigned long flags = XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_FN_SN | (ASN1_STRFLGS_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
	if (memory == NULL || name == NULL || X509_NAME_print_ex(memory, name, 0, flags) < 0) {
		line_say(line, "?");
	} else {
		long n = BIO_get_mem_data(memory, &text);
		line_add(line, text, n > 0 ? (size_t)n : 0);
	}
	BIO_free(memory);
}

static void say_time(struct line *line, const ASN1_TIME *time)
{
	struct tm parts;
	char text[40];
	if (time == NULL || ASN1_TIME_to_tm(time, &parts) != 1 ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
		snprintf(text, sizeof(text), "?");
	line_say(line, text);
}

/* One name of the certificate, when it is of a kind that could be asked for. */
static bool say_alternative(struct line *line, const GENERAL_NAME *name, bool is_first)
{
	char text[INET6_ADDRSTRLEN];
	if (name->type != GEN_DNS && name->type != GEN_IPADD)
		return false;
	line_say(line, is_first ? "" : ", ");
	const ASN1_STRING *value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
	int n = ASN1_STRING_length(value);
	const unsigned char *bytes = ASN1_STRING_get0_data(value);
	if (name->type == GEN_DNS)
		line_add(line, (const char *)bytes, (size_t)n);
	else if ((n == 4 || n == 16) && inet_ntop(n == 4 ? AF_INET : AF_INET6, bytes, text, sizeof(text)) != NULL)
		line_say(line, text);
	else
		line_say(line, "?");
	return true;
}

static void say_alternatives(struct line *line, X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	int n_told = 0, n_left = 0;
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		if (n_told == MAX_NAMES_TOLD)
			n_left += name->type == GEN_DNS || name->type == GEN_IPADD;
		else
			n_told += say_alternative(line, name, n_told == 0);
	}
	if (n_told == 0)
		line_say(line, "nothing (no subjectAltName)");
	if (n_left > 0) {
		char more[40];
		snprintf(more, sizeof(more), " and %d more", n_left);
		line_say(line, more);
	}
	GENERAL_NAMES_free(names);
}

static void say_issuer_unknown(struct line *line, X509 *certificate, const char *more)
{
	line_say(line, "unknown issuer ");
	say_name(line, X509_get_issuer_name(certificate));
	line_say(line, more);
}

static void describe(struct line *line, const char *wanted, int error, X509 *certificate, int depth)
{
	if (certificate != NULL && depth > 0 &&
	    (error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID)) {
		line_say(line, "issuer ");
		say_name(line, X509_get_subject_name(certificate));
		line_say(line, " ");
	}
	switch (certificate != NULL ? error : X509_V_OK) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		line_say(line, "expired since ");
		say_time(line, X509_get0_notAfter(certificate));
		return;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		line_say(line, "not valid before ");
		say_time(line, X509_get0_notBefore(certificate));
		return;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		line_say(line, "name mismatch: wanted ");
		line_say(line, wanted);
		line_say(line, ", certificate is for ");
		say_alternatives(line, certificate);
		return;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		line_say(line, "self-signed certificate ");
		say_name(line, X509_get_subject_name(certificate));
		return;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		say_issuer_unknown(line, certificate, " (the peer sent it, but it isn't trusted)");
		return;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		say_issuer_unknown(line, certificate, depth == 0 ? " (or the peer doesn't send its intermediate)" : "");
		return;
	case X509_V_ERR_CERT_REVOKED:
		line_say(line, "revoked");
		return;
	default:
		line_say(line, X509_verify_cert_error_string(error));
	}
}

static bool spki_digest(X509 *certificate, unsigned char digest[32])
{
	unsigned char *bytes = NULL;
	int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);
	bool is_made = n > 0 && EVP_Digest(bytes, (size_t)n, digest, NULL, EVP_sha256(), NULL) == 1;
	OPENSSL_free(bytes);
	return is_made;
}

static bool is_pinned(const struct tls_context *context, X509 *certificate)
{
	unsigned char digest[32];
	if (certificate == NULL || !spki_digest(certificate, digest))
		return false;
	for (size_t i = 0; i < context->n_pins; i++) {
		if (memcmp(context->pins[i], digest, sizeof(digest)) == 0)
			return true;
	}
	return false;
}

/* RFC 7469 2.6: any key of the verified chain. Without verification only the leaf's key is proved by the handshake. */
static bool pins_match(const struct tls_context *context, X509_STORE_CTX *store)
{
	if (context->n_pins == 0)
		return true;
	if (!context->is_verifying)
		return is_pinned(context, X509_STORE_CTX_get0_cert(store));
	STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
	for (int i = 0; i < sk_X509_num(chain); i++) {
		if (is_pinned(context, sk_X509_value(chain, i)))
			return true;
	}
	return false;
}

static void describe_pin(struct line *line, X509 *leaf)
{
	unsigned char digest[32], text[48];
	line_say(line, "pin mismatch: none of tls.pins is in the chain");
	if (leaf == NULL || !spki_digest(leaf, digest))
		return;
	EVP_EncodeBlock(text, digest, sizeof(digest));
	line_say(line, "; the certificate's own is " PIN_PREFIX);
	line_say(line, (const char *)text);
}

int tls_verify(X509_STORE_CTX *store, void *argument)
{
	(void)argument;
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_connection *connection = SSL_get_app_data(ssl);
	struct line line = { connection->certificate_detail, 0, sizeof(connection->certificate_detail) };
	if (connection->context->is_verifying && X509_verify_cert(store) != 1) {
		describe(&line, connection->wanted_name, X509_STORE_CTX_get_error(store),
			 X509_STORE_CTX_get_current_cert(store), X509_STORE_CTX_get_error_depth(store));
		connection->is_certificate_bad = true;
		if (X509_STORE_CTX_get_error(store) == X509_V_OK)
			X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED);
		return 0;
	}
	if (pins_match(connection->context, store))
		return 1;
	describe_pin(&line, X509_STORE_CTX_get0_cert(store));
	connection->is_certificate_bad = true;
	X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

bool tls_pin_parse(const char *text, unsigned char pin[32])
{
	unsigned char bytes[33];
	const size_t n = sizeof(PIN_PREFIX) - 1;
	if (strncmp(text, PIN_PREFIX, n) != 0 || strlen(text + n) != 44 || text[n + 43] != '=' || text[n + 42] == '=')
		return false;
	if (EVP_DecodeBlock(bytes, (const unsigned char *)text + n, 44) != 33)
		return false;
	memcpy(pin, bytes, 32);
	return true;
}
