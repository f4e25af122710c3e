// SPDX-License-Identifier: GPL-2.0
/*
 * Stub of "nvidia_drm": needs nvidia_modeset, does nothing. The real one needs the kernel's drm as
 * well, which Debian's cloud kernel lacks. Its modeset parameter is readable by root alone, as there.
 */
#include <linux/module.h>

unsigned int hil_nvidia_kms(void);

static bool modeset = true;
module_param(modeset, bool, 0400);

static int __init hil_init(void)
{
	pr_info("nvidia_drm: stub loaded, kms %u\n", hil_nvidia_kms());
	return 0;
}

static void __exit hil_exit(void)
{
	pr_info("nvidia_drm: stub unloaded\n");
}

module_init(hil_init);
module_exit(hil_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hil stub of the nvidia_drm module, drives no GPU");
MODULE_VERSION(HIL_RELEASE "-hil-stub");
