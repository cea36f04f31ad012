/* Arguments in, exit code out. */

#include "cli.h"

int main(int argc, char **argv)
{
	struct cli cli;
	int code = cli_parse(&cli, argc, argv);
	if (code >= 0)
		return code;
	return cli_run(&cli);
}
