// SPDX-License-Identifier: GPL-2.0
/* Stub of "nvidia_modeset": needs nvidia, is needed by nvidia_drm, does nothing. */
#include <linux/module.h>

unsigned int hil_nvidia_rm(void);

unsigned int hil_nvidia_kms(void)
{
	return 1;
}
EXPORT_SYMBOL_GPL(hil_nvidia_kms);

static int __init hil_init(void)
{
	pr_info("nvidia_modeset: stub loaded, rm says %u\n", hil_nvidia_rm());
	return 0;
}

static void __exit hil_exit(void)
{
	pr_info("nvidia_modeset: stub unloaded\n");
}

module_init(hil_init);
module_exit(hil_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hil stub of the nvidia_modeset module, drives no GPU");
MODULE_VERSION(HIL_RELEASE "-hil-stub");
