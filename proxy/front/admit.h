/* From a validated request to an exchange, or to the answer that refuses it. */
#ifndef EVENKEEL_FRONT_ADMIT_H
#define EVENKEEL_FRONT_ADMIT_H

#include "wire.h"

void admit_request(struct wire *wire);

#endif
