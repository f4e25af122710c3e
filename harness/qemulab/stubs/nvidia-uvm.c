// SPDX-License-Identifier: GPL-2.0
/* Stub of "nvidia_uvm": needs nvidia, makes /dev/nvidia-uvm, does nothing. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

unsigned int hil_nvidia_rm(void);

static const struct file_operations hil_device = {
	.owner = THIS_MODULE,
};

static struct miscdevice hil_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "nvidia-uvm",
	.mode = 0666,
	.fops = &hil_device,
};

static int __init hil_init(void)
{
	int bad = misc_register(&hil_misc);

	if (!bad)
		pr_info("nvidia_uvm: stub loaded, rm says %u\n", hil_nvidia_rm());
	return bad;
}

static void __exit hil_exit(void)
{
	misc_deregister(&hil_misc);
	pr_info("nvidia_uvm: stub unloaded\n");
}

module_init(hil_init);
module_exit(hil_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hil stub of the nvidia_uvm module, drives no GPU");
MODULE_VERSION(HIL_RELEASE "-hil-stub");
